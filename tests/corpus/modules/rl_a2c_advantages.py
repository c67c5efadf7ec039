"""A2C: returns are accumulated in place into the tensor of rewards that the critic's loss has saved."""

# bug: raises-backward, tensor=advantage
# fixed: correct
# quiet: silently-wrong, tensor=advantage
import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 6)
        self.policy = nn.Linear(6, 2)
        self.value = nn.Linear(6, 1)

    def forward(self, state):
        hidden = torch.tanh(self.body(state))
        return self.policy(hidden), self.value(hidden).squeeze(-1)


def make():
    torch.manual_seed(11)
    return ActorCritic(), torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1]), torch.rand(5)


def discount(rewards, gamma=0.9):
    returns, running = [], 0.0
    for reward in reversed(rewards.tolist()):
        running = reward + gamma * running
        returns.insert(0, running)
    return torch.tensor(returns)


def run():
    model, states, actions, rewards = make()
    logits, values = model(states)
    returns = discount(rewards)
    advantage = returns - values.detach()
    log_prob = torch.log_softmax(logits, -1)[torch.arange(5), actions]
    policy_loss = -(log_prob * advantage).mean()  # saves
    advantage -= advantage.mean()  # [bug] harm
    advantage.data -= advantage.mean()  # [quiet] harm
    advantage = advantage - advantage.mean()  # [fixed]
    value_loss = (returns - values).pow(2).mean()
    model.zero_grad()
    (policy_loss + 0.5 * value_loss).backward()
    return {"body": model.body.weight.grad, "policy": model.policy.weight.grad}


# truth
def truth():
    model, states, actions, rewards = make()
    logits, values = model(states)
    returns = discount(rewards)
    chosen = logits[torch.arange(5), actions] - logits.logsumexp(-1)
    loss = -(chosen * (returns - values.detach())).mean() + 0.5 * ((returns - values) ** 2).mean()
    body, policy = torch.autograd.grad(loss, [model.body.weight, model.policy.weight])
    return {"body": body, "policy": policy}
