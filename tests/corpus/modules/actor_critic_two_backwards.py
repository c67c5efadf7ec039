"""Two losses share the encoder's graph, whose saved tensors the first backward has freed; nothing was overwritten."""

# raises-backward
import torch
from torch import nn, optim


class PolicyValue(nn.Module):
    body = property(lambda self: self._modules["enc"])

    def __init__(self, obs=4, acts=3, h=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(obs, h), nn.Tanh())
        self.pi, self.v = nn.Linear(h, acts), nn.Linear(h, 1)

    def forward(self, s):
        z = self.body(s)
        return torch.distributions.Categorical(logits=self.pi(z)), self.v(z).squeeze(-1)


def discounted(rs, gamma=0.9):
    out, acc = [], 0.0
    for r in reversed(rs):
        acc = r + gamma * acc
        out.insert(0, acc)
    return torch.tensor(out)


def make():
    torch.manual_seed(21)
    net = PolicyValue()
    return net, torch.randn(6, 4), [0.0, 0.0, 1.0, 0.0, -1.0, 2.0]


def run():
    net, states, rewards = make()
    opt = optim.RMSprop(net.parameters(), lr=1e-2)
    dist, value = net(states)
    actions = dist.sample()
    ret = discounted(rewards)
    adv = ret - value.detach()
    opt.zero_grad()
    (-(dist.log_prob(actions) * adv).mean()).backward()
    nn.functional.mse_loss(value, ret).backward()
    opt.step()
    return {"enc": net.enc[0].weight.grad}
