"""A recommender as a package, run with -m, with sparse embeddings, in-place renormalisation and evaluation; right."""

# correct
# arguments: --epochs 2
import argparse

import torch

from .model import Factors
from .ratings import make_ratings


def train_epoch(model, optimizers, ratings):
    total = 0.0
    for users, items, stars in ratings.batches(8):
        loss = model.loss(users, items, stars)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        model.limit_norms(2.0)
        total += loss.item()
    return total


def main():
    parser = argparse.ArgumentParser(prog="recommender")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(111)
    ratings = make_ratings(6, 7, 24)
    model = Factors(6, 7, 4)
    sparse = [model.users.weight, model.items.weight]
    dense = [model.user_bias, model.item_bias]
    optimizers = [torch.optim.SparseAdam(sparse, lr=2e-2), torch.optim.Adam(dense, lr=2e-2)]
    for epoch in range(options.epochs):
        print(f"epoch {epoch}: {train_epoch(model, optimizers, ratings):.4f}")


main()
