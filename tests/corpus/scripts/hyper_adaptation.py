"""Fast adaptation with functional_call: the dictionary of fast weights is updated in place."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class Classifier(nn.Module):
    def __init__(self, inside=4, width=10, classes=3):
        super().__init__()
        self.body = nn.Linear(inside, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))  # saves


class LearnedRates(nn.Module):
    """A learning rate for each parameter."""

    def __init__(self, model, first=0.1):
        super().__init__()
        self.names = [name for name, _ in model.named_parameters()]
        self.logs = nn.ParameterList(nn.Parameter(torch.tensor(first).log()) for _ in self.names)

    def of(self, name):
        return self.logs[self.names.index(name)].exp()


def adapt(model, rates, x, y, steps):
    fast = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for _ in range(steps):
        loss = F.cross_entropy(functional_call(model, fast, (x,)), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        for (name, weight), grad in zip(fast.items(), grads):
            weight.sub_(rates.of(name) * grad)  # [bug] harm
            fast[name] = weight.sub(rates.of(name) * grad)  # [fixed]
    return fast


def episode(generator, ways=3, shots=3):
    centres = 2 * torch.randn(ways, 4, generator=generator)
    labels = torch.arange(ways).repeat_interleave(shots)

    def draw():
        return centres[labels] + 0.5 * torch.randn(len(labels), 4, generator=generator)

    return (draw(), labels), (draw(), labels)


def main():
    torch.manual_seed(15)
    generator = torch.Generator().manual_seed(15)
    model = Classifier()
    rates = LearnedRates(model)
    optimizer = torch.optim.Adam([*model.parameters(), *rates.parameters()], lr=1e-2)
    for number in range(3):
        (support, query) = episode(generator)
        fast = adapt(model, rates, *support, steps=2)
        loss = F.cross_entropy(functional_call(model, fast, (query[0],)), query[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"episode {number}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
