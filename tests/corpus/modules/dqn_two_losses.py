"""In-place work meets only targets without gradient, and both calls of backward come before the step."""

# correct, oracle=clone
import copy
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Batch = namedtuple("Batch", "s a r s2 done")


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 16), nn.ReLU(inplace=True))
        self.q = nn.Linear(16, 3)
        self.reward = nn.Linear(16, 1)


def make():
    torch.manual_seed(70)
    online = Agent()
    target = copy.deepcopy(online).requires_grad_(False)
    n = 12
    batch = Batch(torch.randn(n, 4), torch.randint(0, 3, (n,)), torch.rand(n), torch.randn(n, 4), torch.rand(n) > 0.8)
    return online, target, batch


def soft_update(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters()):
        t.data.mul_(1 - tau).add_(o.data, alpha=tau)


def run():
    online, target, b = make()
    opt = torch.optim.Adam(online.parameters(), lr=3e-3)
    for it in range(3):
        feats = online.trunk(b.s)
        q = online.q(feats).gather(1, b.a[:, None]).squeeze(1)
        with torch.no_grad():
            nxt = target.q(target.trunk(b.s2)).max(1).values
            nxt[b.done] = 0.0
            backup = nxt.mul_(0.99).add_(b.r)
        td = F.smooth_l1_loss(q, backup)
        aux = F.mse_loss(online.reward(feats).squeeze(1), b.r)
        soft_update(target, online, 0.05)
        opt.zero_grad()
        td.backward(retain_graph=True)
        aux.backward()
        nn.utils.clip_grad_value_(online.parameters(), 100.0)
        opt.step()
    total = td + aux
    return {"trunk": online.trunk[0].weight.grad, "q": online.q.weight.grad, "rew": online.reward.weight.grad}
