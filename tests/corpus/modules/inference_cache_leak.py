"""features cached under inference_mode are fed to the trainable head"""

# bug: raises-forward
# fixed: correct
# nograd: correct
import torch
from torch import nn


class FeatureCache(dict):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone.eval()

    def __missing__(self, key):
        with torch.inference_mode():  # [bug fixed]
            value = self.backbone(key_to_input(key)).relu_()  # [bug fixed]
        with torch.no_grad():  # [nograd]
            value = self.backbone(key_to_input(key)).relu_()  # [nograd]
        value = value.clone()  # [fixed]
        self[key] = value
        return value


def key_to_input(key):
    return torch.linspace(-1, 1, 4)[None] * key


def make():
    torch.manual_seed(58)
    return FeatureCache(nn.Linear(4, 3)), nn.Linear(3, 2)


def run():
    cache, head = make()
    losses = []
    for epoch in range(2):
        for key in (1, 2):
            losses.append(head(cache[key]).logsumexp(1).sum())
    torch.stack(losses).sum().backward()
    return {"w": head.weight.grad, "b": head.bias.grad}


# truth
def truth():
    cache, head = make()
    feats = [cache.backbone(key_to_input(k)).relu().detach() for k in (1, 2)]
    loss = 2 * sum(head(f).logsumexp(1).sum() for f in feats)
    w, b = torch.autograd.grad(loss, [head.weight, head.bias])
    return {"w": w, "b": b}
