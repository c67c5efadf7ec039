"""The value loss still needs the head's weights that the first optimizer step, for the policy loss, has written."""

# raises-backward
import torch
from torch import nn
from torch.distributions import Categorical
from dataclasses import dataclass


@dataclass
class Batch:
    obs: torch.Tensor
    acts: torch.Tensor
    returns: torch.Tensor


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8))
        self.pi = nn.Linear(8, 2)
        self.v = nn.Linear(8, 1)

    def forward(self, o):
        z = torch.tanh(self.trunk(o))  # saves
        return Categorical(logits=self.pi(z)), self.v(z).squeeze(-1)


def make():
    torch.manual_seed(11)
    batch = Batch(torch.randn(10, 3), torch.randint(0, 2, (10,)), torch.randn(10))
    return ActorCritic(), batch


def run():
    ac, batch = make()
    opt = torch.optim.RMSprop(ac.parameters(), lr=7e-3)

    dist, value = ac(batch.obs)
    adv = batch.returns - value.detach()
    losses = {
        "policy": -(dist.log_prob(batch.acts) * adv).mean() - 0.01 * dist.entropy().mean(),
        "value": (batch.returns - value).pow(2).mean(),
    }
    for name, loss in losses.items():
        opt.zero_grad()
        loss.backward(retain_graph=(name == "policy"))
        opt.step()  # harm
    return {n: p.grad for n, p in ac.named_parameters() if p.grad is not None}
