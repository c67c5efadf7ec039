"""LayerNorm from scratch, in place to save memory"""

# bug: raises-backward, tensor=x
# fixed: correct
# mean_only: correct
import torch
from torch import nn


class MyLayerNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.linspace(0.5, 1.5, d))
        self.b = nn.Parameter(torch.zeros(d))
        self.eps = eps

    def forward(self, x):
        x -= x.mean(-1, keepdim=True)  # [bug]
        x -= x.mean(-1, keepdim=True)  # [mean_only]
        x = x - x.mean(-1, keepdim=True)  # [fixed]
        var = x.pow(2).mean(-1, keepdim=True)  # [bug] saves
        var = x.pow(2).mean(-1, keepdim=True)  # [fixed]
        x /= torch.sqrt(var + self.eps)  # [bug] harm
        x = x / torch.sqrt(var + self.eps)  # [fixed]
        return self.g * x + self.b


def make():
    torch.manual_seed(42)
    stack = nn.Sequential(nn.Linear(4, 4), MyLayerNorm(4), nn.Linear(4, 1))
    return stack, torch.randn(3, 4)


def run():
    stack, x = make()
    out = stack(x)
    loss = torch.logsumexp(out, 0).sum()
    loss.backward()
    return {n: p.grad for n, p in stack.named_parameters() if "1." in n or n == "0.weight"}


# truth
def truth():
    stack, x = make()
    h, ln = stack[0](x), stack[1]
    h = nn.functional.layer_norm(h, (4,), ln.g, ln.b)  # [bug fixed]
    h = (h - h.mean(-1, keepdim=True)) * ln.g + ln.b  # [mean_only]
    ps = [stack[0].weight, ln.g, ln.b]
    return dict(zip(["0.weight", "1.g", "1.b"], torch.autograd.grad(torch.logsumexp(stack[2](h), 0).sum(), ps)))
