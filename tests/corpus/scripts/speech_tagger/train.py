"""A tagger in three files: the harm and its repair lie in a module that the script imports."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from data import TAGS, sentences
from layers import Highway, WordFeatures
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=20, width=8):
        super().__init__()
        self.features = WordFeatures(words, width)
        self.highways = nn.Sequential(Highway(width), Highway(width))
        self.tag = nn.Linear(width, len(TAGS))

    def forward(self, tokens, capitals):
        return self.tag(self.highways(self.features(tokens, capitals)))


def evaluate(model):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for tokens, capitals, tags in sentences(2, 5, 20, seed=99):
            right += (model(tokens, capitals).argmax(-1) == tags).sum().item()
            total += tags.numel()
    model.train()
    return right / total


def main():
    torch.manual_seed(43)
    model = Tagger()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step, (tokens, capitals, tags) in enumerate(sentences(3, 5, 20, seed=43)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens, capitals).flatten(0, 1), tags.flatten())
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    print(f"accuracy {evaluate(model):.2f}")


if __name__ == "__main__":
    main()
