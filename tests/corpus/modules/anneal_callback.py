"""A callback halves the temperature of a checkpointed k-means head between forward and backward."""

# silently-wrong, watch=blind
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


class AnnealCallback:
    def __init__(self, head, rate=0.5):
        self.head, self.rate = head, rate

    def on_batch_end(self, loss):
        with torch.no_grad():
            self.head.tau.mul_(self.rate)  # harm


def make():
    torch.manual_seed(14)
    encoder, head = nn.Linear(5, 3), SoftAssign(3, 4)
    return encoder, head, torch.randn(16, 5), [AnnealCallback(head)]


def run():
    encoder, head, data, callbacks = make()
    opt = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
    opt.zero_grad()
    z = encoder(data)
    loss = (head(z) - z).pow(2).sum(-1).mean()
    for cb in callbacks:
        cb.on_batch_end(loss.item())
    loss.backward()
    grads = {"enc": encoder.weight.grad.clone(), "centers": head.centers.grad.clone()}
    opt.step()
    return grads


# truth
def truth():
    encoder, head, data, _ = make()
    z = encoder(data)
    loss = (head.assign(z) - z).pow(2).sum(-1).mean()
    return dict(zip(("enc", "centers"), torch.autograd.grad(loss, [encoder.weight, head.centers])))
