"""The in-place operations of a checkpointed block meet only fresh tensors that nobody saved."""

# correct
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, dim, heads, p=0.2):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, dropout=p, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.p = p

    def body(self, x, mask):
        a, _ = self.attn(x, x, x, attn_mask=mask, need_weights=False)
        a += x
        h = self.n1(a)
        ff = F.gelu(self.up(h))
        ff = F.dropout(ff, self.p, self.training, inplace=True)
        out = self.down(ff)
        out += h
        return self.n2(out)

    def forward(self, x, mask):
        return checkpoint(self.body, x, mask, use_reentrant=False)


class Stack(nn.Module):
    def __init__(self, dim=8, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, 2) for _ in range(depth))

    def forward(self, x):
        t = x.size(1)
        mask = torch.zeros(t, t)
        mask.masked_fill_(torch.ones(t, t).triu(1).bool(), float("-inf"))
        for block in self.blocks:
            x = block(x, mask)
        return x


def make():
    torch.manual_seed(8)
    model = Stack().train()
    return model, torch.randn(2, 5, 8), torch.randn(2, 5, 8)


def run():
    model, tokens, goal = make()
    loss = ((model(tokens) - goal) ** 2).mean()
    loss.backward()
    first = model.blocks[0]
    return {
        "in_proj": first.attn.in_proj_weight.grad,
        "up": first.up.weight.grad,
        "last_down": model.blocks[1].down.weight.grad,
    }


# truth
def truth():
    global checkpoint
    checkpoint = lambda function, *inputs, use_reentrant: function(*inputs)
    return run()
