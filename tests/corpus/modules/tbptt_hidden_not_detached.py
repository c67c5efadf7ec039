"""The hidden state is carried undetached, and the second backward meets recurrent weights that the step has written."""

# raises-backward
import torch
import torch.nn as nn

torch.set_printoptions(precision=4)


class CharRNN(nn.Module):
    def __init__(self, n_in, n_h):
        super().__init__()
        self.i2h = nn.Linear(n_in, n_h)
        self.h2h = nn.Linear(n_h, n_h, bias=False)
        self.dec = nn.Linear(n_h, n_in)

    def forward(self, xs, h):
        ys = []
        for x in xs:
            h = torch.tanh(self.i2h(x) + self.h2h(h))  # saves
            ys.append(self.dec(h))
        return torch.stack(ys), h


def windows(seq, k):
    for i in range(0, len(seq) - k, k):
        yield seq[i : i + k], seq[i + 1 : i + k + 1]


def make():
    torch.manual_seed(1)
    seq = torch.randn(13, 2, 4)
    return CharRNN(4, 5), seq


def run():
    rnn, seq = make()
    opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
    h = torch.zeros(2, 5)
    for step, (x, y) in enumerate(windows(seq, 4)):
        out, h = rnn(x, h)
        loss = (out - y).pow(2).mean()
        opt.zero_grad()
        # retain_graph because of "Trying to backward a second time"
        loss.backward(retain_graph=True)
        opt.step()  # harm
        print(f"window {step} loss {loss.item():.3f}")
    return {"h2h": rnn.h2h.weight.grad}
