"""Sharpness-aware minimisation: the weights are put back before the perturbed loss goes backward."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class SAM(torch.optim.Optimizer):
    def __init__(self, parameters, base, rho=0.05, **options):
        super().__init__(parameters, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    def gradient_norm(self):
        norms = [p.grad.norm() for group in self.param_groups for p in group["params"] if p.grad is not None]
        return torch.stack(norms).norm()

    @torch.no_grad()
    def climb(self):
        for group in self.param_groups:
            scale = group["rho"] / (self.gradient_norm() + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["offset"] = p.grad * scale
                p.add_(self.state[p]["offset"])

    @torch.no_grad()
    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                if "offset" in self.state[p]:
                    p.sub_(self.state[p].pop("offset"))  # harm

    def step(self, closure=None):
        return self.base.step(closure)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = F.elu(self.conv(x.unsqueeze(1)))
        return self.head(h.amax(-1))  # saves


def signals(count, generator):
    labels = torch.randint(2, (count,), generator=generator)
    x = torch.randn(count, 10, generator=generator) * 0.3
    x[labels == 1, 4:6] += 1.5
    return x, labels


def train_step(model, optimizer, x, labels):
    optimizer.zero_grad()
    F.cross_entropy(model(x), labels).backward()
    optimizer.climb()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    optimizer.descend()  # [bug]
    loss.backward()
    optimizer.descend()  # [fixed]
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(11)
    model = Network()
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.1, lr=0.1, momentum=0.9)
    for step in range(3):
        print(step, round(train_step(model, optimizer, *signals(8, generator)), 5))
