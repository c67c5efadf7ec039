"""The temperature of a checkpointed block is lowered only after backward has done its recomputation."""

# correct
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class SoftAssign(nn.Module):
    """Soft k-means head with an annealed temperature kept in a buffer."""

    def __init__(self, dim, k):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(k, dim))
        self.register_buffer("tau", torch.tensor(2.0))

    def assign(self, z):
        sim = z @ self.centers.t()
        sim = sim / self.tau
        return sim.softmax(-1) @ self.centers

    def forward(self, z):
        return checkpoint(self.assign, z, use_reentrant=False)

    @torch.no_grad()
    def anneal(self, rate):
        self.tau.mul_(rate).clamp_(min=0.1)


class Trainer:
    def __init__(self, encoder, head, data):
        self.encoder, self.head, self.data = encoder, head, data
        params = [*encoder.parameters(), *head.parameters()]
        self.opt = torch.optim.Adam(params, lr=1e-2)

    def fit(self, steps):
        for _ in range(steps):
            self.opt.zero_grad()
            z = self.encoder(self.data)
            loss = (self.head(z) - z).pow(2).sum(-1).mean()
            loss.backward()
            self.opt.step()
            self.head.anneal(0.5)
        return loss


def make():
    torch.manual_seed(14)
    return Trainer(nn.Linear(5, 3), SoftAssign(3, 4), torch.randn(16, 5))


def run():
    trainer = make()
    loss = trainer.fit(3)
    return {"enc": trainer.encoder.weight.grad, "centers": trainer.head.centers.grad}


# truth
def truth():
    global checkpoint
    checkpoint = lambda function, *inputs, use_reentrant: function(*inputs)
    return run()
