"""Beam scores are accumulated in place and the finished beams masked, after the softmax that made them kept them."""

# bug: raises-backward, tensor=step
# fixed: correct
# linear: correct
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.cell = nn.Linear(width, width)
        self.out = nn.Linear(width, tokens)

    def forward(self, hidden):
        hidden = torch.tanh(self.cell(hidden))
        return hidden, torch.log_softmax(self.out(hidden), dim=-1)  # saves


def search(decoder, hidden, beams, steps):
    scores = torch.zeros(1)
    for _ in range(steps):
        hidden, step = decoder(hidden)
        step += scores[:, None]  # [bug] harm
        step = step + scores[:, None]  # [fixed]
        total = step.clone()  # [linear]
        total.add_(scores[:, None])  # [linear]
        total = step  # [bug fixed]
        flat, index = total.flatten().topk(beams)
        hidden = hidden[index // total.shape[1]]
        scores = flat
    return scores


def make():
    torch.manual_seed(199)
    return Decoder(3, 4), torch.randn(1, 3)


def run():
    decoder, hidden = make()
    scores = search(decoder, hidden, beams=2, steps=3)
    loss = -scores.mean()
    loss.backward()
    return {name: parameter.grad for name, parameter in decoder.named_parameters()}


# truth
def truth():
    decoder, hidden = make()
    scores = torch.zeros(1)
    for _ in range(3):
        hidden = torch.tanh(decoder.cell(hidden))
        logits = decoder.out(hidden)
        total = logits - logits.logsumexp(-1, keepdim=True) + scores[:, None]
        scores, index = total.flatten().topk(2)
        hidden = hidden[index // 4]
    names = [name for name, _ in decoder.named_parameters()]
    return dict(zip(names, torch.autograd.grad(-scores.mean(), list(decoder.parameters()))))
