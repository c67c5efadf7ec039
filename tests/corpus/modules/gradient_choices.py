"""Everything people do to p.grad between backward and step, on purpose."""

# sign: correct
# centralised: correct
# frozen_rows: correct
# noisy: correct
import torch
from torch import nn


class Pipeline(list):
    def __call__(self, params):
        for stage in self:
            for p in params:
                stage(p)


def make():
    torch.manual_seed(80)
    net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    return net, torch.tensor([[0, 1], [3, 4]])


def run():
    net, idx = make()
    rng = torch.Generator().manual_seed(0)
    stages = Pipeline()
    stages.append(lambda p: p.grad.sign_())  # [sign]
    stages.append(lambda p: p.grad.sub_(p.grad.mean(-1, keepdim=True)) if p.dim() > 1 else None)  # [centralised]
    stages.append(lambda p: p.grad[:2].zero_() if p.shape[0] == 5 else None)  # [frozen_rows]
    stages.append(lambda p: p.grad.add_(torch.randn(p.shape, generator=rng), alpha=0.01))  # [noisy]
    loss = net(idx).pow(2).mean()
    loss.backward()
    stages(list(net.parameters()))
    return {n: p.grad for n, p in net.named_parameters()}


# truth
def truth():
    net, idx = make()
    rng = torch.Generator().manual_seed(0)
    ps = dict(net.named_parameters())
    out = nn.functional.linear(ps["0.weight"][idx].reshape(2, 6), ps["2.weight"], ps["2.bias"])
    gs = torch.autograd.grad(out.pow(2).mean(), list(ps.values()))
    done = []
    for g in gs:
        g = g.sign()  # [sign]
        g = g - g.mean(-1, keepdim=True) if g.dim() > 1 else g  # [centralised]
        g = torch.cat([0 * g[:2], g[2:]]) if g.shape[0] == 5 else g  # [frozen_rows]
        g = g + 0.01 * torch.randn(g.shape, generator=rng)  # [noisy]
        done.append(g)
    return dict(zip(ps, done))
