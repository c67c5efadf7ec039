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
    "ste",
    """
import torch
class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * (x.abs() <= 1).float()
def run():
    torch.manual_seed(0)
    w = torch.randn(4, 3, requires_grad=True)
    x = torch.randn(5, 4)
    loss = (Sign.apply(x @ w) * torch.randn(5, 3)).sum()
    loss.backward()
    return {"w": w.grad}
""",
)
ok(
    "reversal",
    """
import torch
class Rev(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.view_as(x)
    @staticmethod
    def backward(ctx, g): return g.neg()
def run():
    torch.manual_seed(0)
    f = torch.nn.Linear(3, 3); d = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD([*f.parameters(), *d.parameters()], lr=.1)
    for _ in range(3):
        x = torch.randn(4, 3)
        opt.zero_grad()
        d(Rev.apply(f(x))).pow(2).mean().backward()
        opt.step()
    return {"f": f.weight.grad, "d": d.weight.grad}
""",
)
ok(
    "binarynet",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, 4, requires_grad=True)
    org = w.data.clone()
    for _ in range(3):
        w.data = org.sign()
        x = torch.randn(5, 4)
        loss = (x @ w.t()).pow(2).mean()
        w.grad = None
        loss.backward()
        w.data.copy_(org)
        with torch.no_grad():
            w -= 0.1 * w.grad
        org.copy_(w.data.clamp_(-1, 1))
    return {"w": w.grad}
""",
)
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
    "flat_grads",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    ps = list(net.parameters()); n = sum(p.numel() for p in ps)
    flat = torch.zeros(n); i = 0
    for p in ps:
        p.grad = flat[i:i + p.numel()].view_as(p); i += p.numel()
    for _ in range(2):
        flat.zero_()
        net(torch.randn(5, 3)).pow(2).sum().backward()
        flat.div_(flat.norm())
        with torch.no_grad():
            for p in ps: p -= 0.1 * p.grad
    return {"flat": flat}
""",
)
ok(
    "wgan_gp",
    """
import torch
from torch import nn
def run():
    torch.manual_seed(0)
    D = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))
    G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    od = torch.optim.Adam(D.parameters(), lr=1e-2); og = torch.optim.Adam(G.parameters(), lr=1e-2)
    for step in range(3):
        real = torch.randn(6, 2); z = torch.randn(6, 2)
        fake = G(z).detach()
        eps = torch.rand(6, 1)
        mix = (eps * real + (1 - eps) * fake).requires_grad_()
        g, = torch.autograd.grad(D(mix).sum(), mix, create_graph=True)
        loss = D(fake).mean() - D(real).mean() + 10 * (g.norm(dim=1) - 1).pow(2).mean()
        od.zero_grad(); loss.backward(); od.step()
        og.zero_grad(); lg = -D(G(z)).mean(); lg.backward(); og.step()
        for p in D.parameters(): p.data.clamp_(-1, 1)
    return {"g": G[0].weight.grad}
""",
)
ok(
    "dqn",
    """
import torch, copy
from torch import nn
def make():
    torch.manual_seed(0)
    q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)); t = copy.deepcopy(q)
    return q, t, torch.randn(8, 4), torch.randint(0, 2, (8, 1)), torch.randn(8), torch.randn(8, 4)
def run():
    q, t, s, a, r, s2 = make()
    opt = torch.optim.RMSprop(q.parameters())
    for i in range(4):
        target = r + 0.9 * t(s2).max(1)[0].detach()
        loss = nn.functional.smooth_l1_loss(q(s).gather(1, a).squeeze(1), target)
        opt.zero_grad(); loss.backward()
        for p in q.parameters(): p.grad.data.clamp_(-1, 1)
        opt.step()
        for p, tp in zip(q.parameters(), t.parameters()):
            tp.data.mul_(0.9).add_(0.1 * p.data)
    return {n: p.grad for n, p in q.named_parameters()}
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
    "attention",
    """
import torch, math
from torch import nn
class A(nn.Module):
    def __init__(s, d):
        super().__init__(); s.q = nn.Linear(d, d); s.k = nn.Linear(d, d); s.v = nn.Linear(d, d); s.drop = nn.Dropout(.1)
        s.register_buffer("mask", torch.tril(torch.ones(8, 8)).bool())
    def forward(s, x):
        n = x.shape[1]
        w = s.q(x) @ s.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        w.masked_fill_(~s.mask[:n, :n], float("-inf"))
        return s.drop(w.softmax(-1)) @ s.v(x)
def run():
    torch.manual_seed(0)
    a = A(4); x = torch.randn(2, 5, 4)
    a(x).pow(2).mean().backward()
    return {n: p.grad for n, p in a.named_parameters()}
""",
)
ok(
    "checkpoint_dropout",
    """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
def run():
    torch.manual_seed(0)
    a = nn.Sequential(nn.Linear(3, 3), nn.Dropout(.5), nn.Tanh()); b = nn.Linear(3, 1)
    x = torch.randn(4, 3)
    loss = b(checkpoint(a, x, use_reentrant=False)).sum() + b(checkpoint(a, x.clone().requires_grad_(), use_reentrant=True)).sum()
    loss.backward()
    return {"a": a[0].weight.grad, "b": b.weight.grad}
""",
)
ok(
    "func",
    """
import torch
from torch.func import grad, vmap, functional_call
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    ps = {k: v.detach() for k, v in net.named_parameters()}
    def loss(ps, x, y): return (functional_call(net, ps, (x,)) - y).pow(2).sum()
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    per = vmap(grad(loss), in_dims=(None, 0, 0))(ps, x, y)
    return {k: v.sum(0) for k, v in per.items()}
""",
)
ok(
    "maml",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    x, y = torch.randn(5, 3), torch.randn(5)
    inner = ((x @ w - y) ** 2).mean()
    g, = torch.autograd.grad(inner, w, create_graph=True)
    fast = w - 0.1 * g
    ((x @ fast - y) ** 2).mean().backward()
    return {"w": w.grad}
""",
)
ok(
    "amp",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(torch.randn(3, 4)).float().pow(2).mean()
    loss.backward()
    return {"w": net.weight.grad}
""",
)
ok(
    "numpy_log",
    """
import torch, numpy as np
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True); logs = []
    for _ in range(3):
        y = (w * 2).exp(); logs.append(y.detach().numpy().copy()); stats = y.detach().numpy().mean()
        loss = y.sum() / float(stats)
        w.grad = None; loss.backward()
        with torch.no_grad(): w -= 0.1 * w.grad
        arr = np.array(logs[-1]); arr *= 0
    return {"w": w.grad}
""",
)
ok(
    "hooks_clip",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, 3, requires_grad=True); h0 = torch.zeros(3)
    h = torch.tanh(w @ torch.ones(3) + h0)
    h.register_hook(lambda g: g.clamp(-0.1, 0.1))
    w.register_hook(lambda g: g * 2)
    (h * torch.arange(3.)).sum().backward()
    return {"w": w.grad}
""",
)
ok(
    "lbfgs",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True); opt = torch.optim.LBFGS([w], max_iter=5)
    x, y = torch.randn(6, 3), torch.randn(6)
    def closure():
        opt.zero_grad(); l = ((x @ w - y) ** 2).mean(); l.backward(); return l
    for _ in range(2): opt.step(closure)
    closure()
    return {"w": w.grad}
""",
)
ok(
    "pgd",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2); x = torch.rand(4, 3); adv = x.clone().requires_grad_(True)
    for _ in range(3):
        loss = net(adv).logsumexp(1).sum(); loss.backward()
        adv.data += 0.1 * adv.grad.sign(); adv.data.clamp_(0, 1); adv.grad.zero_()
    net.zero_grad(); net(adv).logsumexp(1).sum().backward()
    return {"w": net.weight.grad, "x": adv.grad}
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
    "moco",
    """
import torch, copy
def run():
    torch.manual_seed(0)
    q = torch.nn.Linear(3, 2); k = copy.deepcopy(q); queue = torch.randn(2, 8); ptr = 0
    for p in k.parameters(): p.requires_grad = False
    opt = torch.optim.SGD(q.parameters(), lr=.1)
    for _ in range(3):
        x = torch.randn(2, 3)
        with torch.no_grad():
            for a, b in zip(q.parameters(), k.parameters()): b.data = b.data * 0.9 + a.data * 0.1
            keys = k(x)
        f = q(x)
        logits = torch.cat([(f * keys).sum(1, keepdim=True), f @ queue.clone().detach()], 1)
        loss = torch.nn.functional.cross_entropy(logits, torch.zeros(2, dtype=torch.long))
        opt.zero_grad(); loss.backward(); opt.step()
        queue[:, ptr:ptr + 2] = keys.t(); ptr += 2
    return {"q": q.weight.grad}
""",
)
ok(
    "mask_grad",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(4, 4, requires_grad=True); m = torch.rand(4, 4) > .5
    for _ in range(2):
        y = (w * m).sum() + (w ** 2).sum()
        w.grad = None; y.backward(); w.grad[~m] = 0; w.grad /= w.grad.norm()
        with torch.no_grad(): w.sub_(w.grad); w.mul_(m)
    return {"w": w.grad}
""",
)
ok(
    "unused_overwrite",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(4, requires_grad=True); buf = torch.empty(4); total = 0
    for t in range(3):
        buf.copy_(torch.randn(4))
        total = total + (w + buf).sum() + (w * buf.clone()).sum()
    total.backward()
    return {"w": w.grad}
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
    "retain_two",
    """
import torch
def run():
    torch.manual_seed(0)
    enc = torch.nn.Linear(3, 3); a = torch.nn.Linear(3, 1); b = torch.nn.Linear(3, 1)
    oa = torch.optim.SGD(a.parameters(), .1); ob = torch.optim.SGD([*b.parameters(), *enc.parameters()], .1)
    h = enc(torch.randn(4, 3)); la = a(h.detach()).pow(2).mean(); lb = b(h).pow(2).mean() + a(h).mean().detach()
    la.backward(); lb.backward(); oa.step(); ob.step()
    return {n: p.grad for n, p in enc.named_parameters()}
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
    "script_mnist",
    """
import torch
from torch import nn
torch.manual_seed(1)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(10, 20); self.b = nn.Linear(20, 3); self.calls = 0
    def forward(self, x):
        self.calls += 1
        self.last = torch.relu_(self.a(x))
        return self.b(self.last)
net = Net(); opt = torch.optim.Adam(net.parameters())
data = [(torch.randn(8, 10), torch.randint(0, 3, (8,))) for _ in range(5)]
for epoch in range(2):
    for x, y in data:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
    print(loss.item())
""",
)
ok(
    "spectral",
    """
import torch
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
def run():
    torch.manual_seed(0)
    net = torch.nn.Sequential(spectral_norm(torch.nn.Linear(3, 4)), torch.nn.ReLU(), weight_norm(torch.nn.Linear(4, 1)))
    for _ in range(2): net.zero_grad(); net(torch.randn(5, 3)).sum().backward()
    return {n: p.grad for n, p in net.named_parameters()}
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
    "custom_dirty",
    """
import torch
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k): ctx.k = k; x.mul_(k); ctx.mark_dirty(x); return x
    @staticmethod
    def backward(ctx, g): return g * ctx.k, None
def run():
    w = torch.randn(3, requires_grad=True); h = w + 1; h = Scale.apply(h, 3.0); (h * h).sum().backward()
    return {"w": w.grad}
""",
)
ok(
    "stash_ok",
    """
import torch
class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b): ctx.a = a.clone(); ctx.b = b; return a * b
    @staticmethod
    def backward(ctx, g): return g * ctx.b, g * ctx.a
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True); v = torch.randn(3, requires_grad=True); h = w * 2
    y = Mul.apply(h, v); h.data.zero_(); y.sum().backward()
    return {"w": w.grad, "v": v.grad}
""",
)
ok(
    "accum",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1); total = None
    for i in range(4):
        net(torch.randn(2, 3)).pow(2).mean().backward()
        net.weight.grad.mul_(1.0)
    g = net.weight.grad
    g.div_(4)
    return {"w": net.weight.grad}
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
    "gan_detach",
    "raises-backward",
    """
import torch
from torch import nn
def make():
    torch.manual_seed(0)
    return nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(4, 2)
def run():
    G, D, z = make()
    og, od = torch.optim.SGD(G.parameters(), .1), torch.optim.SGD(D.parameters(), .1)
    fake = G(z)
    score = D(fake)
    d_loss = nn.functional.softplus(score).mean()
    g_loss = nn.functional.softplus(-score).mean()
    d_loss.backward(retain_graph=True)
    od.step() #H
    g_loss.backward()
    og.step()
    return {"g": G.weight.grad}
""",
)
bad(
    "a2c",
    "raises-backward",
    """
import torch
from torch import nn
class AC(nn.Module):
    def __init__(self):
        super().__init__(); self.body = nn.Linear(3, 4); self.pi = nn.Linear(4, 2); self.v = nn.Linear(4, 1)
    def forward(self, s):
        h = torch.tanh(self.body(s)); return self.pi(h), self.v(h)
def make():
    torch.manual_seed(0); return AC(), torch.randn(5, 3), torch.randn(5)
def run():
    ac, s, r = make()
    opt = torch.optim.Adam(ac.parameters())
    logits, v = ac(s)
    adv = r - v.squeeze(1)
    critic = adv.pow(2).mean()
    actor = -(torch.distributions.Categorical(logits=logits).log_prob(torch.tensor([0, 1, 0, 1, 1])) * adv).mean()
    opt.zero_grad()
    critic.backward(retain_graph=True)
    opt.step() #H
    actor.backward()
    opt.step()
    return {n: p.grad for n, p in ac.named_parameters()}
""",
)
bad(
    "rnn_buf",
    "raises-backward",
    """
import torch
def make():
    torch.manual_seed(0); return torch.randn(3, 3, requires_grad=True), torch.randn(3, 3), torch.randn(4, 2, 3)
def run():
    w, u, x = make()
    h = torch.zeros(2, 3)
    state = torch.zeros(4, 2, 3)
    for t in range(4):
        state[t] = h #H
        h = torch.tanh(state[t] @ w + x[t] @ u)
    h.sum().backward()
    return {"w": w.grad}
""",
)
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
    "mask_exp",
    "raises-backward",
    """
import torch
def make():
    torch.manual_seed(0); return torch.randn(4, 4, requires_grad=True), torch.eye(4).bool()
def run():
    w, eye = make()
    sim = torch.exp(w @ w.t())
    sim.masked_fill_(eye, 0) #H
    loss = -torch.log(sim.sum(1)).mean()
    loss.backward()
    return {"w": w.grad}
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
    "numpy_buffer",
    "silently-wrong",
    """
import torch, numpy as np
def make():
    torch.manual_seed(0); np.random.seed(0); return torch.nn.Linear(3, 1), np.random.randn(6, 2, 3).astype("float32")
def run():
    net, data = make()
    batch = np.empty((2, 3), dtype="float32")
    x = torch.from_numpy(batch)
    losses = []
    for i in range(6):
        np.copyto(batch, data[i]) #H
        losses.append(net(x).pow(2).mean())
    sum(losses).backward()
    return {"w": net.weight.grad}
""",
)
bad(
    "dlpack",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True); a = w.exp()
    loss = a.sum()
    view = torch.from_dlpack(a.detach())
    view += 1 #H
    loss.backward()
    return {"w": w.grad}
""",
)
ok(
    "swap_data",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 3), torch.randn(4, 3, requires_grad=True)
def run():
    net, x = make()
    loss = net(x).tanh().sum()
    avg = {n: p.detach() * 0.5 for n, p in net.named_parameters()}
    for n, p in net.named_parameters():
        p.data = avg[n]
    loss.backward()
    return {"x": x.grad}
""",
)
bad(
    "fused",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)); opt = torch.optim.Adam(net.parameters(), fused=True)
    x = torch.randn(4, 3); out = net(x); l1 = out.pow(2).mean(); l2 = out.mean()
    l1.backward(retain_graph=True)
    opt.step() #H
    net.zero_grad()
    l2.backward()
    return {"w": net[0].weight.grad}
""",
)
bad(
    "fn_gradwrite",
    "silently-wrong",
    """
import torch
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g):
        g.clamp_(-0.1, 0.1) #H
        return g
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 3), torch.randn(4, 3)
def run():
    net, x = make()
    h = net(x)
    g = h * 1.0
    y = Clip.apply(h) + g
    y.pow(2).sum().backward()
    return {"w": net.weight.grad}
""",
)
bad(
    "hook_write",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    b = w * 3; a = w * 2
    def halve(g):
        g.mul_(0.5) #H
    a.register_hook(halve)
    (b + a).exp().sum().backward()
    return {"w": w.grad}
""",
)
bad(
    "keep_grad",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    (w ** 2).sum().backward()
    first = w.grad
    w.grad.zero_() #H
    (w ** 3).sum().backward()
    return {"first": first, "second": w.grad}
""",
)
bad(
    "keep_grad2",
    "silently-wrong",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Linear(2, 2), torch.randn(3, 2)
def run():
    net, x = make()
    opt = torch.optim.SGD(net.parameters(), lr=.1)
    saved = {}
    net(x).pow(2).sum().backward()
    for n, p in net.named_parameters():
        saved[n] = p.grad
    opt.step()
    opt.zero_grad(set_to_none=False) #H
    return saved
""",
)
bad(
    "nodirty",
    "raises-backward",
    """
import torch
class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp_(min=0) #H
    @staticmethod
    def backward(ctx, g):
        m, = ctx.saved_tensors
        return g * m
def run():
    torch.manual_seed(0)
    w = torch.randn(4, requires_grad=True)
    h = w.tanh()
    y = Relu.apply(h)
    (y * 2).sum().backward()
    return {"w": w.grad}
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
    "ema_live",
    "silently-wrong",
    """
import torch, copy
def make():
    torch.manual_seed(0)
    s = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)); return s, copy.deepcopy(s).requires_grad_(False), torch.randn(4, 3)
def update(s, t):
    for p, q in zip(s.parameters(), t.parameters()):
        q.data.mul_(0.5).add_(p.data, alpha=0.5).add_(0.1) #H
def run():
    s, t, x = make()
    loss = t(s[0](x)).pow(2).mean()
    update(s, t)
    loss.backward()
    return {"w": s[0].weight.grad}
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
    "leaf_inplace",
    "raises-forward",
    """
import torch
def run():
    w = torch.ones(3, requires_grad=True)
    w -= 0.1 #H
    w.sum().backward()
    return {"w": w.grad}
""",
)
bad(
    "retain",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    cell = torch.nn.RNNCell(2, 2); h = torch.zeros(1, 2)
    for t in range(3):
        h = cell(torch.randn(1, 2), h)
        h.sum().backward()
    return {"w": cell.weight_hh.grad}
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
    "labels_smooth",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 4); x = torch.randn(2, 3); t = torch.zeros(2, 4)
    t[torch.arange(2), torch.tensor([1, 2])] = 1
    loss = -(net(x).log_softmax(1) * t).sum()
    t.mul_(0.9).add_(0.025) #H
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
bad(
    "accum_alias",
    "silently-wrong",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    (w ** 2).sum().backward()
    before = w.grad
    (w ** 3).sum().backward() #H
    return {"quadratic": before, "both": w.grad}
""",
)
bad(
    "env_buffer",
    "silently-wrong",
    """
import numpy as np
import torch
class Env:
    def __init__(self): self.state = np.zeros(3, dtype=np.float32); self.rng = np.random.RandomState(0)
    def step(self):
        self.state[:] = self.rng.randn(3) #H
        return self.state, float(self.state.sum())
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 2), Env()
def run():
    policy, env = make()
    logps, rewards = [], []
    for _ in range(4):
        obs, r = env.step()
        logits = policy(torch.from_numpy(obs))
        logps.append(torch.log_softmax(logits, 0)[0]); rewards.append(r)
    loss = -(torch.stack(logps) * torch.tensor(rewards)).sum()
    loss.backward()
    return {"w": policy.weight.grad, "b": policy.bias.grad}
""",
)
bad(
    "fwd_hook",
    "raises-backward",
    """
import torch
def clamp_hook(module, inputs, output):
    output.clamp_(
        max=0.5,
    )  
def make():
    torch.manual_seed(0); net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sigmoid(), torch.nn.Linear(3, 1))
    net[1].register_forward_hook(clamp_hook); return net, torch.randn(2, 3)
def run():
    net, x = make()
    net(x).sum().backward()
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
    "generator",
    """
import torch
def batches(n):
    for i in range(n):
        yield torch.full((2, 3), float(i))
def run():
    torch.manual_seed(0); net = torch.nn.Linear(3, 1); opt = torch.optim.SGD(net.parameters(), .1)
    for x in batches(3):
        opt.zero_grad(); net(x).pow(2).mean().backward(); opt.step()
    return {"w": net.weight.grad.tolist()}
""",
)
bad(
    "multi",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    h = torch.exp(
        w * 2
    )
    h.mul_( #H
        torch.ones(3)
    )
    loss = (
        h
        .sum()
    )
    loss.backward()
    return {"w": w.grad}
""",
)
bad(
    "inference",
    "raises-forward",
    """
import torch
def run():
    w = torch.ones(3, requires_grad=True)
    with torch.inference_mode(): m = torch.ones(3)
    loss = (w * m).sum() #H
    loss.backward()
    return {"w": w.grad}
""",
)
bad(
    "copy_param",
    "raises-backward",
    """
import torch, copy
def make():
    torch.manual_seed(0)
    a = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)); return a, copy.deepcopy(a), torch.randn(5, 3)
def sync(src, dst):
    with torch.no_grad():
        for s, d in zip(src.parameters(), dst.parameters()):
            d.copy_(s * 0.9) #H
def run():
    a, b, x = make()
    loss = (a(x) - b(x)).pow(2).mean()
    sync(a, b)
    loss.backward()
    return {"a": a[0].weight.grad}
""",
)
bad(
    "kvcache",
    "raises-backward",
    """
import torch
class Cache:
    def __init__(self, n, d): self.k = torch.zeros(n, d); self.t = 0
    def add(self, k):
        self.k[self.t] = k #H
        self.t += 1
        return self.k[:self.t]
def run():
    torch.manual_seed(0)
    wk, wq = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3); cache = Cache(4, 3); loss = 0.
    for t in range(4):
        x = torch.randn(3); keys = cache.add(wk(x)); loss = loss + (keys @ wq(x)).logsumexp(0)
    loss.backward()
    return {"k": wk.weight.grad, "q": wq.weight.grad}
""",
)
bad(
    "out_arg",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, 3, requires_grad=True); x = torch.randn(2, 3); buf = torch.empty(2, 3)
    torch.mul(x, 2, out=buf)
    y = (buf @ w).tanh().sum()
    torch.mul(x, 3, out=buf) #H
    y = y + (buf @ w).sum()
    y.backward()
    return {"w": w.grad}
""",
)
bad(
    "step_in_loop",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    opt = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)
    out = net(torch.randn(4, 3))
    for i in range(2):
        opt.zero_grad()
        out[:, i].pow(2).mean().backward(retain_graph=True)
        opt.step() #H
    return {"w": net[0].weight.grad}
""",
)
bad(
    "ln_data",
    "silently-wrong",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 3), torch.randn(4, 3)
def project(layer):
    for p in layer.parameters():
        p.data.div_(p.data.norm(dim=-1, keepdim=True).clamp(min=1e-6)) #H
def run():
    layer, x = make()
    x.requires_grad_()
    loss = torch.nn.functional.softplus(layer(x)).sum()
    project(layer)
    loss.backward()
    return {"x": x.grad, "w": layer.weight.grad}
""",
)
ok(
    "project_before",
    """
import torch
def make():
    torch.manual_seed(0); return torch.nn.Linear(3, 3), torch.randn(4, 3)
def run():
    layer, x = make()
    opt = torch.optim.Adam(layer.parameters(), fused=True)
    for _ in range(3):
        for p in layer.parameters(): p.data.div_(p.data.norm())
        loss = layer(x).pow(2).sum(); opt.zero_grad(); loss.backward(); opt.step()
    return {"w": layer.weight.grad}
""",
)
bad(
    "nograd_hidden",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    cell = torch.nn.RNNCell(2, 3); h = torch.zeros(1, 3)
    for t in range(3):
        h = cell(torch.randn(1, 2), h)
        with torch.no_grad():
            h.clamp_(-0.2, 0.2) #H
    h.sum().backward()
    return {"w": cell.weight_hh.grad}
""",
)
bad(
    "scatter",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    e = torch.randn(4, 3, requires_grad=True)
    nodes = e * 1.0
    for step in range(2):
        msg = torch.tanh(nodes) * nodes
        nodes.index_add_(0, torch.tensor([0, 1]), msg[2:]) #H
    nodes.sum().backward()
    return {"e": e.grad}
""",
)
ok(
    "ste_data",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    q = w + (w.round() - w).detach()
    (q * torch.arange(3.)).sum().backward()
    return {"w": w.grad}
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
ok(
    "buffer_double",
    """
import torch
def run():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1); bufs = [torch.empty(2, 3) for _ in range(2)]
    losses = []
    for i in range(2):
        bufs[i % 2].normal_(); losses.append(net(bufs[i % 2]).pow(2).mean())
    sum(losses).backward()
    for b in bufs: b.zero_()
    return {"w": net.weight.grad}
""",
)
ok(
    "sac",
    """
import torch
def run():
    torch.manual_seed(0)
    a = torch.nn.Linear(3, 2); q = torch.nn.Linear(5, 1); log_alpha = torch.zeros(1, requires_grad=True)
    oa, oq, oal = torch.optim.Adam(a.parameters()), torch.optim.Adam(q.parameters()), torch.optim.Adam([log_alpha])
    for _ in range(2):
        s = torch.randn(4, 3)
        with torch.no_grad(): t = q(torch.cat([s, a(s)], 1))
        lq = (q(torch.cat([s, torch.randn(4, 2)], 1)) - t).pow(2).mean(); oq.zero_grad(); lq.backward(); oq.step()
        for p in q.parameters(): p.requires_grad_(False)
        act = a(s); lp = act.pow(2).sum(1); la = (log_alpha.exp().detach() * lp - q(torch.cat([s, act], 1)).squeeze()).mean()
        oa.zero_grad(); la.backward(); oa.step()
        for p in q.parameters(): p.requires_grad_(True)
        lal = -(log_alpha * (lp.detach() + 1)).mean(); oal.zero_grad(); lal.backward(); oal.step()
    return {"a": a.weight.grad, "alpha": log_alpha.grad}
""",
)
ok(
    "dropout_ckpt_bn",
    """
import torch
from torch.utils.checkpoint import checkpoint_sequential
def run():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(.5), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 1))
    x = torch.randn(6, 3, requires_grad=True)
    checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()
    return {"w": net[0].weight.grad, "x": x.grad}
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
    "vectorised_view",
    "raises-backward",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(4, 3, requires_grad=True)
    h = w.tanh().view(2, 2, 3)
    flat = h.reshape(4, 3)
    flat += 1 #H
    h.sum().backward()
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
ok(
    "accumulate_then_read",
    """
import torch
def run():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    for k in range(1, 4):
        (w ** k).sum().backward()
        g = w.grad
    return {"w": g}
""",
)
