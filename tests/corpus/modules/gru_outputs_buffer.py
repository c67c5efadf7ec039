"""Each state is copied into an output buffer that is read after the loop; the recurrence has its own tensor."""

# correct, oracle=clone
import torch
import torch.nn as nn


class PackedGRU(nn.Module):
    def __init__(self, inputs, nh):
        super().__init__()
        self.nh = nh
        self.cell = nn.GRUCell(inputs, nh)
        self.head = nn.Linear(nh, 1)

    def forward(self, seq, lengths):
        T, B, _ = seq.shape
        h = seq.new_zeros(B, self.nh)
        outputs = torch.zeros(T, B, self.nh)
        for t in range(T):
            h_new = self.cell(seq[t], h)
            alive = (t < lengths).unsqueeze(1)
            h = torch.where(alive, h_new, h)
            outputs[t] = h
            outputs[t][~alive.squeeze(1)] = 0.0
        return self.head(outputs), h


def make():
    torch.manual_seed(55)
    return PackedGRU(3, 4), torch.randn(5, 3, 3), torch.tensor([5, 2, 4])


def run():
    model, seq, lengths = make()
    pred, last = model(seq, lengths)
    loss = pred.sigmoid().mean() + 0.1 * last.square().sum()
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}
