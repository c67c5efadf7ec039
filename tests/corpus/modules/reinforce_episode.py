"""REINFORCE: log-probs of an episode in a preallocated tensor, returns standardised in place."""

# bug: silently-wrong, tensor=returns
# fixed: correct
# before: correct
import torch
from torch import nn
from torch.distributions import Bernoulli


class Env:
    def __init__(self):
        self.t = 0

    def reset(self):
        self.t = 0
        return torch.tensor([1.0, 0.0])

    def step(self, action):
        self.t += 1
        reward = float(action) * 0.5 + 0.1 * self.t
        return torch.tensor([1.0 - 0.3 * self.t, 0.2 * self.t]), reward, self.t >= 4


def rollout(env, policy, horizon):
    logps = torch.zeros(horizon)
    rewards = torch.zeros(horizon)
    state, t, done = env.reset(), 0, False
    while not done:
        dist = Bernoulli(logits=policy(state).squeeze())
        action = torch.tensor(float(t % 2))
        logps[t] = dist.log_prob(action)
        state, rewards[t], done = env.step(action)
        t += 1
    return logps[:t], rewards[:t]


def reward_to_go(rewards, gamma=0.95):
    out = rewards.clone()
    for i in reversed(range(len(out) - 1)):
        out[i] += gamma * out[i + 1]
    return out


def standardise(v):
    v.data.sub_(v.mean())  # [bug] harm
    v.data.div_(v.std() + 1e-6)  # [bug] harm
    v.sub_(v.mean()).div_(v.std() + 1e-6)  # [before]
    v = (v - v.mean()) / (v.std() + 1e-6)  # [fixed]
    return v


def make():
    torch.manual_seed(12)
    return Env(), nn.Linear(2, 1)


def run():
    env, policy = make()
    logps, rewards = rollout(env, policy, 8)
    returns = reward_to_go(rewards)
    returns = standardise(returns)  # [before]
    loss = -(logps * returns).sum()  # [fixed before]
    loss = -(logps * returns).sum()  # [bug] saves
    score = standardise(returns)  # [bug fixed]
    loss.backward()
    return {"w": policy.weight.grad, "b": policy.bias.grad}


# truth
def truth():
    env, policy = make()
    states = torch.tensor([[1.0, 0.0], [0.7, 0.2], [0.4, 0.4], [0.1, 0.6]])
    r, g = [0.1, 0.7, 0.3, 0.9], [0.0] * 4
    for i in (3, 2, 1, 0):
        g[i] = r[i] + (0.95 * g[i + 1] if i < 3 else 0.0)
    g = torch.tensor(g)
    g = (g - g.mean()) / (g.std() + 1e-6)  # [before]
    z = policy(states).squeeze(1)
    sign = torch.tensor([-1.0, 1.0, -1.0, 1.0])
    loss = -(nn.functional.logsigmoid(sign * z) * g).sum()
    w, b = torch.autograd.grad(loss, [policy.weight, policy.bias])
    return {"w": w, "b": b}
