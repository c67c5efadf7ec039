"""The hidden state is carried undetached, so the second window's backward goes through weights the step has written."""

# raises-backward
import torch
import torch.nn as nn
import torch.nn.functional as F


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.cell = nn.RNNCell(hidden, hidden)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, chars, h):
        logits = []
        for c in chars:
            h = self.cell(self.emb(c), h)  # saves
            logits.append(self.head(h))
        return torch.stack(logits), h


def make():
    torch.manual_seed(0)
    text = torch.randint(0, 7, (13, 2))
    return CharRNN(7, 5), text


def run():
    model, text = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    h = torch.zeros(2, 5)
    bptt = 6
    for start in range(0, text.size(0) - 1, bptt):
        x = text[start : start + bptt]
        y = text[start + 1 : start + 1 + bptt]
        out, h = model(x, h)
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        # without retain_graph it told me "backward through the graph a second time"
        loss.backward(retain_graph=True)
        optimizer.step()  # harm
    return {"head": model.head.weight.grad, "w_hh": model.cell.weight_hh.grad}
