"""A generator builds the actor's loss only after the critic's step and the soft update."""

# correct, oracle=clone
import torch
import torch.nn as nn
import torch.nn.functional as F


def fitted(net, lr):
    return net, torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)


class SoftUpdate:
    def __init__(self, src, dst, rho):
        self.src, self.dst, self.rho = list(src), list(dst), rho

    @torch.no_grad()
    def __call__(self):
        torch._foreach_mul_(self.dst, 1 - self.rho)
        torch._foreach_add_(self.dst, self.src, alpha=self.rho)


def objectives(actor, critic, target, s, a, r):
    with torch.no_grad():
        goal = r + 0.9 * target(torch.cat([s, actor(s)], -1))
    yield "critic", F.mse_loss(critic(torch.cat([s, a], -1)), goal)
    yield "actor", -critic(torch.cat([s, actor(s)], -1)).mean()


def make():
    torch.manual_seed(87)
    build = lambda i, o: nn.Sequential(nn.Linear(i, 8), nn.Tanh(), nn.Linear(8, o))
    actor, opt_a = fitted(build(3, 2), 0.1)
    critic, opt_c = fitted(build(5, 1), 0.1)
    target = build(5, 1).requires_grad_(False)
    batch = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 1)
    soft = SoftUpdate(critic.parameters(), target.parameters(), 0.05)
    return (actor, critic, target), {"actor": opt_a, "critic": opt_c}, soft, batch


def run():
    nets, opts, soft, batch = make()
    grads = {}
    for who, loss in objectives(*nets, *batch):
        opts[who].zero_grad()
        loss.backward()
        opts[who].step()
        soft()
    grads = {n: p.grad for n, p in nets[0].named_parameters()}
    return grads
