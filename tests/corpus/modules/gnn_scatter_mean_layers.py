"""Messages are scattered into fresh zeros and divided in place by a degree that needs no gradient."""

# correct, oracle=clone
import torch
from torch import nn

AGGR = {}


def register(name):
    def _reg(fn):
        AGGR[name] = fn
        return fn

    return _reg


@register("sum")
def agg_sum(msg, dst, n):
    return torch.zeros(n, msg.size(1), dtype=msg.dtype).scatter_add_(0, dst[:, None].expand_as(msg), msg)


@register("mean")
def agg_mean(msg, dst, n):
    deg = torch.zeros(n, 1, dtype=msg.dtype).index_add_(0, dst, torch.ones(len(dst), 1, dtype=msg.dtype))
    out = agg_sum(msg, dst, n)
    out /= deg.clamp_(min=1)
    return out


class MPLayer(nn.Module):
    def __init__(self, d, aggr="mean", **kw):
        super().__init__()
        self.msg, self.upd = nn.Linear(2 * d, d, **kw), nn.Linear(d, d, **kw)
        self.aggr = AGGR[aggr]

    def forward(self, h, edges):
        src, dst = edges
        m = torch.tanh(self.msg(torch.cat([h[src], h[dst]], 1)))
        h = self.upd(h)
        h += self.aggr(m, dst, h.size(0))
        return h.relu_()


def make():
    torch.manual_seed(68)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 0]])
    return nn.ModuleList([MPLayer(3), MPLayer(3, aggr="sum")]), torch.randn(5, 3), edges


def run():
    layers, h, edges = make()
    for layer in layers:
        h = layer(h, edges)
    graph_emb = h.mean(0)
    graph_emb[0] *= 2
    loss = graph_emb.exp().sum()
    loss.backward()
    return {f"l{i}.{n}": p.grad for i, l in enumerate(layers) for n, p in l.named_parameters()}
