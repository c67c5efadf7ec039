"""Every write to the parameters comes before the forward, and the max-norm projection after the step."""

# correct, oracle=clone
import math
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, d=5, n_cls=3):
        super().__init__()
        self.backbone = nn.Linear(d, 8)
        self.head = nn.Linear(8, n_cls)
        self.temp = nn.Parameter(torch.zeros(()))
        self.reset()

    def reset(self):
        nn.init.orthogonal_(self.head.weight, gain=0.5)
        self.backbone.weight.data.normal_(0, 1 / math.sqrt(8))
        self.backbone.bias.data[:] = 0.01
        with torch.no_grad():
            self.head.weight[0] += 0.2
            self.temp.fill_(0.3)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x))) * self.temp.exp()


def make():
    torch.manual_seed(69)
    pre = Classifier()
    net = Classifier()
    net.load_state_dict({k: v for k, v in pre.state_dict().items() if k.startswith("backbone")}, strict=False)
    return net, torch.randn(9, 5), torch.randint(0, 3, (9,))


@torch.no_grad()
def project_(weight, max_norm=0.5):
    weight.copy_(torch.renorm(weight, 2, 0, max_norm))


def run():
    net, x, y = make()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(2):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        project_(net.head.weight)
    return {n: p.grad for n, p in net.named_parameters()}
