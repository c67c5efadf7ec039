"""A product has saved a read from memory, which is a view, and the erase and write change that memory."""

# raises-backward
import torch

# toy neural turing machine. one slot is read, transformed, and written back every step


def init_weights(width):
    w_read = torch.randn(width, width) * 0.3
    w_in = torch.randn(width, width) * 0.3
    return w_read.requires_grad_(), w_in.requires_grad_()


def make():
    torch.manual_seed(21)
    width, slots, T = 4, 3, 5
    w_read, w_in = init_weights(width)
    seq = torch.randn(T, width)
    return w_read, w_in, seq, slots


def run():
    w_read, w_in, seq, slots = make()
    memory = torch.zeros(slots, seq.size(1))
    outs = []
    for t, token in enumerate(seq):
        slot = t % slots
        prev = memory[slot - 1]
        cand = torch.tanh(prev @ w_read + token @ w_in)  # saves
        outs.append(cand)
        memory[slot] = cand  # harm

    loss = torch.stack(outs).square().sum()
    loss.backward()
    return {"w_read": w_read.grad, "w_in": w_in.grad}
