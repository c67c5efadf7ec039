"""Matrix factorisation with biases."""

import torch
from torch import nn


class Factors(nn.Module):
    """Stars as a product of factors."""

    def __init__(self, users, items, width):
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.items = nn.Embedding(items, width, sparse=True)
        self.user_bias = nn.Parameter(torch.zeros(users))
        self.item_bias = nn.Parameter(torch.zeros(items))

    def forward(self, users, items):
        stars = (self.users(users) * self.items(items)).sum(1)
        stars += self.user_bias[users]
        stars += self.item_bias[items]
        return stars

    def loss(self, users, items, stars):
        return (self(users, items) - stars).pow(2).mean()

    @torch.no_grad()
    def limit_norms(self, largest):
        """Shortens the vectors that grew too long."""
        for table in (self.users.weight, self.items.weight):
            table.mul_((largest / table.norm(dim=1, keepdim=True).clamp_(min=1e-6)).clamp_(max=1.0))
