"""Federated averaging: clients train copies, and the server's weights are overwritten when every backward is done; right."""

# correct
# arguments: --clients 2 --rounds 2
import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.Hardswish(inplace=True))
        self.out = nn.Linear(10, 2)

    def forward(self, x):
        return self.out(self.features(x))


class Client:
    def __init__(self, number, shift):
        generator = torch.Generator().manual_seed(number)
        self.x = torch.randn(12, 6, generator=generator)
        self.x[:, number % 6] += shift
        self.y = (self.x.sum(1) > shift).long()

    def train(self, server, epochs, lr, proximity):
        model = copy.deepcopy(server)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        anchor = [p.detach().clone() for p in server.parameters()]
        for _ in range(epochs):
            for x, y in zip(self.x.split(6), self.y.split(6)):
                loss = F.cross_entropy(model(x), y)
                for p, a in zip(model.parameters(), anchor):
                    loss += proximity * (p - a).pow(2).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return model.state_dict(), loss.item()


class Server:
    def __init__(self, clients):
        self.model, self.clients = Model(), clients

    @torch.no_grad()
    def average(self, states):
        for name, value in self.model.state_dict().items():
            if value.is_floating_point():
                value.zero_()
                for state in states:
                    value.add_(state[name], alpha=1 / len(states))

    def round(self, epochs):
        states, losses = zip(*(client.train(self.model, epochs, 0.1, 0.01) for client in self.clients))
        self.average(states)
        return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(103)
    server = Server([Client(number, 0.3 * number) for number in range(args.clients)])
    for number in range(args.rounds):
        print(f"round {number}: {server.round(epochs=1):.4f}")


main()
