"""The critic's weights are clamped in place after the generator's forward through them and before its backward."""

# raises-backward
import torch
from torch import nn
from dataclasses import dataclass, field


@dataclass
class TrainState:
    clip: float = 0.05
    zdim: int = 3
    n: int = 8
    log: list = field(default_factory=list)


def mlp(*sizes, act=nn.LeakyReLU):
    layers = [m for i, o in zip(sizes, sizes[1:]) for m in (nn.Linear(i, o), act(0.2))]
    return nn.Sequential(*layers[:-1])


def clip_weights(net, c):
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-c, c)  # harm


def make():
    torch.manual_seed(17)
    st = TrainState()
    return st, mlp(st.zdim, 6, 2), mlp(2, 6, 1), torch.randn(st.n, 2) + 2


def run():
    st, G, D, real = make()
    fake = G(torch.randn(st.n, st.zdim))
    d_loss = D(fake.detach()).mean() - D(real).mean()
    g_loss = -D(fake).mean()  # saves
    grads_D = torch.autograd.grad(d_loss, list(D.parameters()))
    clip_weights(D, st.clip)
    g_loss.backward()
    st.log.append((d_loss.item(), g_loss.item()))
    return {f"G.{i}": p.grad for i, p in enumerate(G.parameters())}
