"""LBFGS builds a fresh graph at each evaluation and moves parameters only between them."""

# correct, oracle=clone
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm, orthogonal


def make():
    torch.manual_seed(44)
    net = nn.Sequential(
        weight_norm(nn.Linear(2, 6)), nn.Tanh(), orthogonal(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 1)
    )
    grid = torch.linspace(-1, 1, 12)
    x = torch.stack([grid, grid.pow(2)], dim=1)
    return net, x, torch.sin(3 * grid)[:, None]


def run():
    net, x, y = make()
    opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
    curve = []

    def closure():
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        if loss.requires_grad:
            loss.backward()
        curve.append(loss.item())
        return loss

    for _ in range(2):
        opt.step(closure)
    loss = closure()
    g, v = net[0].parametrizations.weight.original0, net[0].parametrizations.weight.original1
    return {"g": g.grad, "v": v.grad, "out": net[4].weight.grad}
