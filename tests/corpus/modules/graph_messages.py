"""Messages on a graph are summed with index_add_ into the node features that the next layer reads."""

# bug: raises-backward, tensor=nodes
# fixed: correct
# fresh: correct
import torch
from torch import nn


class MessagePassing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.gate = nn.Parameter(torch.randn(width))

    def forward(self, nodes, edges):
        source, destination = edges
        gated = nodes * self.gate  # [bug] saves
        gated = nodes * self.gate  # [fixed fresh]
        messages = torch.relu(self.message(gated[source]))
        nodes.index_add_(0, destination, messages)  # [bug] harm
        nodes = nodes.index_add(0, destination, messages)  # [fixed]
        total = torch.zeros_like(nodes)  # [fresh]
        total.index_add_(0, destination, messages)  # [fresh]
        nodes = nodes + total  # [fresh]
        return nodes


def make():
    torch.manual_seed(167)
    layers = nn.ModuleList([MessagePassing(2), MessagePassing(2)])
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 1]])
    return layers, torch.randn(4, 2), edges


def run():
    layers, features, edges = make()
    nodes = features.clone()
    for layer in layers:
        nodes = layer(nodes, edges)
    loss = nodes.pow(2).mean()
    loss.backward()
    return {"gate": layers[0].gate.grad, "message": layers[1].message.weight.grad}


# truth
def truth():
    layers, nodes, (source, destination) = make()
    pick, put = torch.eye(4)[source], torch.eye(4)[destination].t()
    for layer in layers:
        nodes = nodes + put @ torch.relu(layer.message(pick @ (nodes * layer.gate)))
    gate, message = torch.autograd.grad(nodes.pow(2).mean(), [layers[0].gate, layers[1].message.weight])
    return {"gate": gate, "message": message}
