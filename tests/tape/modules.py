# ruff: noqa: E501
"""Correct programs that resemble real training code: libraries' layers, hooks, and writes in place that harm nothing."""

MODULES = {
    "resnet": """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(s, c):
        super().__init__(); s.c1 = nn.Conv2d(c, c, 3, padding=1, bias=False); s.b1 = nn.BatchNorm2d(c); s.c2 = nn.Conv2d(c, c, 3, padding=1, bias=False); s.b2 = nn.BatchNorm2d(c); s.r = nn.ReLU(inplace=True)
    def forward(s, x):
        y = s.r(s.b1(s.c1(x))); y = s.b2(s.c2(y)); y += x
        return s.r(y)
def run():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), Block(4), Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(.3), nn.Linear(4, 3))
    opt = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9, weight_decay=1e-3)
    for _ in range(2):
        opt.zero_grad(); loss = nn.functional.cross_entropy(net(torch.randn(4, 3, 8, 8)), torch.tensor([0, 1, 2, 0])); loss.backward(); opt.step()
    return {n: p.grad for n, p in net.named_parameters()}
""",
    "ema_after": """
import torch, copy
def run():
    torch.manual_seed(0)
    s = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)); t = copy.deepcopy(s).requires_grad_(False)
    opt = torch.optim.AdamW(s.parameters())
    for _ in range(3):
        x = torch.randn(5, 3); loss = (s(x) - t(x)).pow(2).mean()
        opt.zero_grad(set_to_none=False); loss.backward(); opt.step()
        with torch.no_grad():
            for p, q in zip(s.parameters(), t.parameters()): q.lerp_(p, 0.1)
            for p, q in zip(s.buffers(), t.buffers()): q.copy_(p)
    return {n: p.grad for n, p in s.named_parameters()}
""",
    "complex": """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, dtype=torch.cfloat, requires_grad=True)
    (torch.fft.fft(w).abs() ** 2).sum().backward()
    return {"w": torch.view_as_real(w.grad)}
""",
    "rnn_lib": """
import torch
def run():
    torch.manual_seed(0)
    m = torch.nn.GRU(3, 4, 2, batch_first=True, dropout=.2); o, h = m(torch.randn(2, 5, 3)); o[:, -1].sum().backward()
    return {n: p.grad for n, p in m.named_parameters()}
""",
    "mha_lib": """
import torch
def run():
    torch.manual_seed(0)
    m = torch.nn.TransformerEncoderLayer(8, 2, 16); m(torch.randn(4, 2, 8)).pow(2).mean().backward()
    return {n: p.grad for n, p in m.named_parameters()}
""",
    "cache_grad_norm": """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1); opt = torch.optim.SGD(net.parameters(), lr=.1); norms = []
    for i in range(3):
        opt.zero_grad(set_to_none=False)
        net(torch.randn(2, 3)).pow(2).mean().backward()
        grads = [p.grad for p in net.parameters()]
        norms.append(torch.stack([g.norm() for g in grads]).sum())
        torch._foreach_mul_(grads, 0.5)
        opt.step()
    return {"w": net.weight.grad, "norms": torch.stack(norms)}
""",
    "full_bw_hook": """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)), torch.randn(2, 3)
def run():
    net, x = make()
    seen = []
    net[1].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].norm()) or (gi[0] * 0.5,))
    net(x).sum().backward()
    return {"w": net[0].weight.grad}
""",
}
