# ruff: noqa: E501
"""Programs that resemble real training code and are misleading: correct ones that look wrong, wrong ones that look correct.

In a wrong program, the harmful line ends in `#H`; the mark is removed before it runs.
"""

import textwrap

MODULES: dict[str, tuple[str, list[int], str]] = {}


def ok(name: str, source: str) -> None:
    """A program whose gradients are right, however it looks."""
    MODULES[name] = ("correct", [], textwrap.dedent(source))


def bad(name: str, outcome: str, source: str) -> None:
    """A program with a fault, and its marked lines."""
    lines = textwrap.dedent(source).split("\n")
    marked = [number for number, line in enumerate(lines, start=1) if line.endswith("#H")]
    MODULES[name] = (outcome, marked, "\n".join(line.removesuffix(" #H") for line in lines))


ok(
    "a3c",
    """
import torch
def run():
    torch.manual_seed(0)
    shared = torch.nn.Linear(3, 2); local = torch.nn.Linear(3, 2)
    opt = torch.optim.SGD(shared.parameters(), lr=.1)
    for _ in range(3):
        local.load_state_dict(shared.state_dict())
        for p in local.parameters():
            if p.grad is not None: p.grad.zero_()
        x = torch.randn(4, 3)
        local(x).pow(2).mean().backward()
        for p, s in zip(local.parameters(), shared.parameters()):
            if s.grad is None:
                s._grad = p.grad
        opt.step()
    return {n: p.grad for n, p in shared.named_parameters()}
""",
)
ok(
    "tbptt",
    """
import torch
def run():
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(2, 3); h = torch.zeros(1, 3); c = torch.zeros(1, 3)
    opt = torch.optim.SGD(cell.parameters(), lr=.1)
    for chunk in range(3):
        h.detach_(); c.detach_()
        loss = 0
        for t in range(4):
            h, c = cell(torch.randn(1, 2), (h, c)); loss = loss + h.pow(2).sum()
        opt.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(cell.parameters(), .5); opt.step()
    return {n: p.grad for n, p in cell.named_parameters()}
""",
)
ok(
    "resnet",
    """
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
)
ok(
    "vqvae",
    """
import torch
def run():
    torch.manual_seed(0)
    enc = torch.nn.Linear(3, 2); code = torch.randn(4, 2); cnt = torch.ones(4)
    x = torch.randn(6, 3)
    for _ in range(2):
        z = enc(x); i = torch.cdist(z, code).argmin(1); q = code[i]
        zq = z + (q - z).detach()
        loss = zq.pow(2).mean() + (z - q.detach()).pow(2).mean()
        enc.zero_grad(); loss.backward()
        with torch.no_grad():
            for k in range(4):
                m = i == k
                if m.any(): code[k].mul_(0.9).add_(0.1 * z[m].mean(0))
    return {"w": enc.weight.grad}
""",
)
ok(
    "inplace_chain",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(4, requires_grad=True)
    x = w * 3; x.add_(1); x.mul_(2); x[1:3] = x[1:3] * 0.5; x.neg_(); x.sigmoid_()
    out = torch.zeros(8); out[:4] = x; out[4:] = w.exp()
    out.sum().backward()
    return {"w": w.grad}
""",
)
ok(
    "ema_after",
    """
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
)
ok(
    "complex",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, dtype=torch.cfloat, requires_grad=True)
    (torch.fft.fft(w).abs() ** 2).sum().backward()
    return {"w": torch.view_as_real(w.grad)}
""",
)
ok(
    "rnn_lib",
    """
import torch
def run():
    torch.manual_seed(0)
    m = torch.nn.GRU(3, 4, 2, batch_first=True, dropout=.2); o, h = m(torch.randn(2, 5, 3)); o[:, -1].sum().backward()
    return {n: p.grad for n, p in m.named_parameters()}
""",
)
ok(
    "mha_lib",
    """
import torch
def run():
    torch.manual_seed(0)
    m = torch.nn.TransformerEncoderLayer(8, 2, 16); m(torch.randn(4, 2, 8)).pow(2).mean().backward()
    return {n: p.grad for n, p in m.named_parameters()}
""",
)
ok(
    "cache_grad_norm",
    """
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
)
# ---- bugs
bad(
    "rnn_hidden_reset",
    "raises-backward",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.GRUCell(2, 3), torch.randn(5, 2, 2), torch.tensor([[0, 0], [0, 1], [0, 0], [1, 0], [0, 0]]).bool()
def run():
    cell, x, done = make()
    h = torch.zeros(2, 3); loss = 0.
    for t in range(5):
        h = cell(x[t], h)
        loss = loss + h.pow(2).mean()
        h[done[t]] = 0. #H
    loss.backward()
    return {"w": cell.weight_hh.grad}
""",
)
bad(
    "softmax_clamp",
    "raises-backward",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 4), torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
def loss_fn(net, x, y):
    p = net(x).softmax(1)
    p.clamp_(1e-3, 1 - 1e-3) #H
    return -(torch.log(p)[torch.arange(5), y]).mean()
def run():
    net, x, y = make()
    loss = loss_fn(net, x, y)
    loss.backward()
    return {"w": net.weight.grad}
""",
)
bad(
    "data_clamp",
    "silently-wrong",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 4), torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
def run():
    net, x, y = make()
    p = net(x).sigmoid()
    loss = p.pow(2).mean()
    p.data.clamp_(0.4, 0.6) #H
    loss.backward()
    return {"w": net.weight.grad}
""",
)
bad(
    "stash",
    "silently-wrong",
    """
import torch
class Sq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x
    @staticmethod
    def backward(ctx, g): return 2 * ctx.x * g
def run():
    torch.manual_seed(0)
    w = torch.randn(4, requires_grad=True)
    h = w * 2
    y = Sq.apply(h)
    with torch.no_grad():
        h.zero_() #H
    y.sum().backward()
    return {"w": w.grad}
""",
)
bad(
    "running_stats",
    "raises-backward",
    """
import torch
class Norm(torch.nn.Module):
    def __init__(self, n):
        super().__init__(); self.register_buffer("mean", torch.zeros(n)); self.register_buffer("scale", torch.ones(n)); self.g = torch.nn.Parameter(torch.ones(n))
    def forward(self, x):
        out = self.g * ((x - self.mean) / self.scale)
        self.scale.mul_(0.9).add_(0.1 * x.detach().std(0)) #H
        return out
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 3), Norm(3), torch.randn(5, 3)
def run():
    lin, norm, x = make()
    norm(lin(x)).pow(2).sum().backward()
    return {"lin": lin.weight.grad, "g": norm.g.grad}
""",
)
bad(
    "ckpt",
    "silently-wrong",
    """
import torch
from torch.utils.checkpoint import checkpoint
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.lin = torch.nn.Linear(3, 3); self.register_buffer("temp", torch.tensor(1.0))
    def block(self, x): return torch.tanh(self.lin(x) * self.temp)
    def forward(self, x): return checkpoint(self.block, x, use_reentrant=False)
def run():
    torch.manual_seed(0)
    net = Net(); x = torch.randn(2, 3)
    loss = net(x).sum()
    net.temp.fill_(0.5) #H
    loss.backward()
    return {"w": net.lin.weight.grad}
""",
)
bad(
    "nograd_target",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 3); x = torch.randn(4, 3)
    h = net(x)
    with torch.no_grad():
        h /= h.norm(dim=1, keepdim=True) #H
    loss = (h - torch.ones(4, 3)).pow(2).sum()
    loss.backward()
    return {"w": net.weight.grad}
""",
)
bad(
    "residual",
    "raises-backward",
    """
import torch
class Res(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.f = torch.nn.Linear(3, 3)
    def forward(self, x):
        y = torch.sigmoid(x)
        z = self.f(y)
        y += z #H
        return y
def run():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), Res(), Res()); net(torch.randn(2, 3)).sum().backward()
    return {"w": net[0].weight.grad}
""",
)
ok(
    "full_bw_hook",
    """
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
)
ok(
    "gumbel",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(2, 3, requires_grad=True)
    y = torch.nn.functional.gumbel_softmax(w, hard=True)
    (y * torch.arange(3.)).sum().backward()
    return {"w": w.grad}
""",
)
bad(
    "ctxlist",
    "silently-wrong",
    """
import torch
class Lin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.kept = [x, w]
        return x @ w
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.kept
        return g @ w.t(), x.t() @ g
def run():
    torch.manual_seed(0)
    w = torch.randn(3, 2, requires_grad=True); x = torch.randn(4, 3, requires_grad=True)
    y = Lin.apply(x, w)
    opt = torch.optim.SGD([w], lr=.1); w.grad = torch.ones_like(w)
    opt.step() #H
    w.grad = None
    y.pow(2).sum().backward()
    return {"x": x.grad, "w": w.grad}
""",
)
bad(
    "storage",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    h = w.sigmoid(); loss = h.sum()
    s = h.untyped_storage()
    s.fill_(0) #H
    loss.backward()
    return {"w": w.grad}
""",
)
bad(
    "setter_grad",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    history = []
    for k in range(1, 4):
        (w ** k).sum().backward()
        history.append(w.grad)
        w.grad.zero_() #H
    return {f"g{i}": g for i, g in enumerate(history)}
""",
)
