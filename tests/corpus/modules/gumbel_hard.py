"""Straight-through Gumbel-softmax copied from a gist; gradients vanish for the chosen class."""

# bug: silently-wrong, tensor=y_soft
# fixed: correct
# official: correct
import torch
import torch.nn.functional as F


def sample_gumbel(shape, gen):
    return -torch.log(-torch.log(torch.rand(shape, generator=gen) + 1e-9) + 1e-9)


def gumbel_softmax(logits, tau, gen):
    y_soft = F.softmax((logits + sample_gumbel(logits.shape, gen)) / tau, dim=-1)  # [fixed official]
    y_soft = F.softmax((logits + sample_gumbel(logits.shape, gen)) / tau, dim=-1)  # [bug] saves
    index = y_soft.argmax(-1, keepdim=True)
    y_hard = y_soft.data.zero_().scatter_(-1, index, 1.0)  # [bug] harm
    y_hard = torch.zeros_like(y_soft).scatter_(-1, index, 1.0)  # [official]
    y_hard = y_soft.data.clone().zero_().scatter_(-1, index, 1.0)  # [fixed]
    return y_hard - y_soft.detach() + y_soft


def make():
    gen = torch.Generator().manual_seed(18)
    logits = torch.randn(3, 4, generator=gen).requires_grad_()
    codes = torch.randn(4, 2, generator=gen).requires_grad_()
    return logits, codes, gen


def decode(z, codes):
    return torch.tanh(z @ codes).pow(2).sum()


def run():
    logits, codes, gen = make()
    z = gumbel_softmax(logits, 0.7, gen)
    loss = decode(z, codes)
    loss.backward()
    return {"logits": logits.grad, "codes": codes.grad}


# truth
def truth():
    logits, codes, gen = make()
    soft = torch.softmax((logits + sample_gumbel(logits.shape, gen)) / 0.7, -1)
    hard = F.one_hot(soft.argmax(-1), 4).float()
    z = hard + soft - soft.detach()
    a, b = torch.autograd.grad(decode(z, codes), [logits, codes])
    return {"logits": a, "codes": b}
