"""PPO: the probability ratio is clamped in place although exp() keeps it for its own backward."""

# bug: raises-backward, tensor=ratio
# fixed: correct
# data: silently-wrong, tensor=ratio
import torch
from torch import nn
from torch.distributions import Categorical


def make():
    torch.manual_seed(17)
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    states = torch.randn(6, 4)
    actions = torch.tensor([0, 1, 2, 0, 1, 2])
    old = torch.full((6,), -1.1)
    advantages = torch.tensor([1.0, -1.0, 0.5, 2.0, -0.5, 0.3])
    return policy, states, actions, old, advantages


def surrogate(log_prob, old, advantages, epsilon):
    ratio = torch.exp(log_prob - old)  # saves
    unclipped = ratio * advantages
    clipped = ratio.clamp_(1 - epsilon, 1 + epsilon) * advantages  # [bug] harm
    clipped = ratio.data.clamp_(1 - epsilon, 1 + epsilon) * advantages  # [data] harm
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon) * advantages  # [fixed]
    return -torch.min(unclipped, clipped).mean()


def run():
    policy, states, actions, old, advantages = make()
    distribution = Categorical(logits=policy(states))
    log_prob = distribution.log_prob(actions)
    loss = surrogate(log_prob, old, advantages, epsilon=0.1)
    loss = loss - 0.01 * distribution.entropy().mean()
    policy.zero_grad()
    loss.backward()
    return {name: parameter.grad for name, parameter in policy.named_parameters()}


# truth
def truth():
    policy, states, actions, old, advantages = make()
    logits = torch.log_softmax(policy(states), -1)
    ratio = (logits[torch.arange(6), actions] - old).exp()
    clipped = ratio.clamp(0.9, 1.1) * advantages
    loss = -torch.min(ratio * advantages, clipped).mean()
    loss = loss + 0.01 * (logits.exp() * logits).sum(-1).mean()
    names = [name for name, _ in policy.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(policy.parameters()))))
