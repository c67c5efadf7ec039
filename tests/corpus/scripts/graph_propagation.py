"""A graph network that updates the states of some nodes by index, in the tensor that the layer before has read."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class Graph:
    def __init__(self, nodes, edges, generator):
        self.nodes = nodes
        self.source = torch.randint(nodes, (edges,), generator=generator)
        self.target = torch.randint(nodes, (edges,), generator=generator)
        self.features = torch.randn(nodes, 5, generator=generator)
        self.labels = (self.features.sum(1) > 0).long()

    def degree(self):
        return torch.zeros(self.nodes).index_add_(0, self.target, torch.ones(len(self.target))).clamp_min_(1)


class Propagation(nn.Module):
    """States of the nodes that have incoming edges are replaced by what their neighbours send."""

    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, h, graph, degree):
        messages = self.message(h)[graph.source]  # saves
        received = torch.zeros_like(h).index_add(0, graph.target, messages) / degree[:, None]
        active = graph.target.unique()
        gate = torch.sigmoid(self.gate(h[active]))
        updated = gate * torch.tanh(received[active]) + (1 - gate) * h[active]
        h = h.clone()  # [fixed]
        h[active] = updated  # [bug] harm
        h[active] = updated  # [fixed]
        return h


class Network(nn.Module):
    def __init__(self, width=6, layers=2):
        super().__init__()
        self.encode = nn.Linear(5, width)
        self.layers = nn.ModuleList(Propagation(width) for _ in range(layers))
        self.classify = nn.Linear(width, 2)

    def forward(self, graph):
        degree = graph.degree()
        h = self.encode(graph.features)
        for layer in self.layers:
            h = layer(h, graph, degree)
        return self.classify(h)


def accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


def main(epochs=3):
    torch.manual_seed(13)
    graph = Graph(9, 16, torch.Generator().manual_seed(13))
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for epoch in range(epochs):
        optimizer.zero_grad()
        logits = network(graph)
        loss = F.cross_entropy(logits, graph.labels)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy(logits, graph.labels):.2f}")


if __name__ == "__main__":
    main()
