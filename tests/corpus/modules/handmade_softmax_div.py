"""A hand-written softmax divides in place the exponential that exp has saved as its output."""

# raises-backward
import torch


class T:
    """little wrapper so I can write maths with operators"""

    def __init__(self, v):
        self.v = v

    def __matmul__(self, o):
        return T(self.v @ o.v)

    def __add__(self, o):
        return T(self.v + o.v)

    @property
    def t(self):
        return T(self.v.transpose(-1, -2))

    @property
    def softmax(self):
        return T(_softmax(self.v))


def _softmax(z):
    z = z - z.max(dim=-1, keepdim=True).values.detach()
    e = z.exp()  # saves
    e /= e.sum(-1, keepdim=True)  # harm
    return e


def attention(q, k, v, scale=0.5):
    s = q @ k.t
    s.v *= scale
    return s.softmax @ v


def make():
    torch.manual_seed(23)
    x = T(torch.randn(5, 4))
    Wq, Wk, Wv = (T(torch.randn(4, 4, requires_grad=True)) for _ in range(3))
    return x, Wq, Wk, Wv


def run():
    x, Wq, Wk, Wv = make()
    y = attention(x @ Wq, x @ Wk, x @ Wv)
    loss = (y.v**2).sum()
    loss.backward()
    return {"Wq": Wq.v.grad, "Wk": Wk.v.grad, "Wv": Wv.v.grad}
