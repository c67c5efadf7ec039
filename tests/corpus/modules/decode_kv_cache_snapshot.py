"""Each step attends over a clone of the cache's filled part, so later writes into the cache reach nothing saved."""

# correct, oracle=clone
import torch
from torch import nn


class KVCache:
    def __init__(self, max_len, d):
        self.buf = torch.zeros(2, max_len, d)
        self.t = 0

    def append(self, k, v):
        self.buf[0, self.t] = k
        self.buf[1, self.t] = v
        self.t += 1

    def read(self):
        snap = self.buf[:, : self.t].clone()
        return snap[0], snap[1]


class CausalHead(nn.Module):
    def __init__(self, d=4, max_len=8):
        super().__init__()
        self.max_len = max_len
        self.qkv = nn.Linear(d, 3 * d, bias=False)

    def stream(self, tokens):
        cache = KVCache(self.max_len, tokens.size(-1))
        for tok in tokens:
            q, k, v = self.qkv(tok).view(3, -1).unbind(0)
            cache.append(k, v)
            K, V = cache.read()
            yield (K @ q / 2.0).softmax(0) @ V


def make():
    torch.manual_seed(100)
    return CausalHead(), torch.randn(6, 4)


def run():
    head, toks = make()
    preds = torch.stack([*head.stream(toks[:-1])])
    loss = (preds - toks[1:]).square().sum()
    loss.backward()
    return {"qkv": head.qkv.weight.grad}
