"""Word vectors with max_norm: the output layer shares the table that the lookup rescales."""

# bug: raises-backward, tensor=weight
# fixed: correct
# untied: correct
import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.table = nn.Embedding(tokens, width, max_norm=0.8)
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, tokens, bias=False)

    def forward(self, tokens):
        prior = torch.softmax(self.table.weight @ self.mix.weight, dim=1)  # [bug] saves
        prior = torch.softmax(self.table.weight.clone() @ self.mix.weight, dim=1)  # [fixed]
        prior = torch.softmax(self.out.weight @ self.mix.weight, dim=1)  # [untied]
        hidden = torch.tanh(self.mix(self.table(tokens)))  # [bug] harm
        hidden = torch.tanh(self.mix(self.table(tokens)))  # [fixed untied]
        return hidden @ prior.t()


def make():
    torch.manual_seed(163)
    return LanguageModel(5, 3), torch.tensor([1, 4, 2]), torch.tensor([4, 2, 0])


def run():
    model, tokens, following = make()
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits, following)
    model.zero_grad()
    loss.backward()
    return {"table": model.table.weight.grad, "mix": model.mix.weight.grad}


# truth
def truth():
    model, tokens, following = make()
    full, mix = model.table.weight.detach().clone().requires_grad_(), model.mix.weight
    shrink = torch.ones(5, 1)
    norm = full.detach().norm(dim=1, keepdim=True)
    shrink[tokens] = torch.clamp(0.8 / norm, max=1.0)[tokens]
    rows = (full.detach() * shrink).requires_grad_()
    prior = torch.softmax(full @ mix, 1)  # [fixed bug]
    prior = torch.softmax(model.out.weight @ mix, 1)  # [untied]
    logits = torch.tanh(model.mix(rows[tokens])) @ prior.t()
    loss = nn.functional.cross_entropy(logits, following)
    a, b, c = torch.autograd.grad(loss, [rows, mix, full], allow_unused=True)
    return {"table": a + (0 if c is None else c), "mix": b}
