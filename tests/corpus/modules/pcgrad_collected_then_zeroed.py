"""What is collected per task is the .grad buffer itself, which the next task zeroes and fills."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
from torch import nn

SEED = 7


def flat(gs):
    return torch.cat([g.reshape(-1) for g in gs])


def task_grads(params, losses, opt):
    """list of per-task gradient lists (for PCGrad)"""
    collected = []
    for loss in losses:
        opt.zero_grad(set_to_none=False)  # [bug] harm
        opt.zero_grad(set_to_none=False)  # [fixed]
        loss.backward(retain_graph=True)
        collected.append([p.grad for p in params])  # [bug]
        collected.append([p.grad.clone() for p in params])  # [fixed]
    return collected


def project(gi, gj):
    dot = (gi * gj).sum()
    return gi - dot / gj.norm() ** 2 * gj if dot < 0 else gi


def make():
    torch.manual_seed(SEED)
    trunk = nn.Linear(4, 3)
    heads = [nn.Linear(3, 1), nn.Linear(3, 1)]
    x = torch.randn(6, 4)
    return trunk, heads, x, [torch.randn(6, 1) for _ in heads]


def run():
    trunk, heads, x, ys = make()
    params = list(trunk.parameters())
    opt = torch.optim.SGD(params, lr=0.1)
    z = torch.tanh(trunk(x))
    losses = [(h(z) - y).pow(2).mean() for h, y in zip(heads, ys)]
    g0, g1 = task_grads(params, losses, opt)
    merged = project(flat(g0), flat(g1))
    print("conflict:", (flat(g0) * flat(g1)).sum().item() < 0, merged.norm().item())
    return {"task0.weight": g0[0], "task1.weight": g1[0]}


# truth
def truth():
    trunk, heads, x, ys = make()
    z = torch.tanh(trunk(x))
    losses = [(h(z) - y).pow(2).mean() for h, y in zip(heads, ys)]
    return {
        f"task{i}.weight": torch.autograd.grad(loss, trunk.weight, retain_graph=True)[0]
        for i, loss in enumerate(losses)
    }
