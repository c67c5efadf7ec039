"""Double DQN with prioritised replay: the priorities are made in place from the very errors that the loss has squared."""

# bug: raises-backward
# fixed: correct
import random
from collections import namedtuple

import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward following done")


class PrioritisedReplay:
    def __init__(self, capacity, alpha=0.6):
        self.capacity, self.alpha = capacity, alpha
        self.memory, self.priorities = [], torch.zeros(capacity)

    def push(self, transition):
        self.priorities[len(self.memory)] = 1.0
        self.memory.append(transition)

    def sample(self, count, generator, beta=0.4):
        p = self.priorities[: len(self.memory)] ** self.alpha
        p = p / p.sum()
        chosen = torch.multinomial(p, count, generator=generator)
        weights = (len(self.memory) * p[chosen]) ** -beta
        columns = zip(*(self.memory[i] for i in chosen.tolist()))
        return [torch.stack(column) for column in columns], weights / weights.max(), chosen

    def update(self, chosen, errors):
        self.priorities[chosen] = errors


def make_network():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))


def fill(replay, count, rng):
    state = torch.tensor([rng.random() for _ in range(3)])
    for _ in range(count):
        action = rng.randrange(2)
        following = (0.9 * state).roll(1) + torch.tensor([0.1 * action, rng.random() * 0.1, 0.0])
        reward = torch.tensor(float(following[0] > 0.5))
        replay.push(Transition(state, torch.tensor(action), reward, following, torch.tensor(0.0)))
        state = following


class Agent:
    def __init__(self, gamma=0.95):
        self.online, self.target = make_network(), make_network()
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=5e-3)
        self.gamma = gamma

    def learn(self, replay, generator):
        (states, actions, rewards, following, done), weights, chosen = replay.sample(6, generator)
        values = self.online(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.online(following).argmax(1, keepdim=True)
            future = self.target(following).gather(1, best).squeeze(1)
        errors = values - (rewards + self.gamma * (1 - done) * future)
        loss = (weights * errors.pow(2)).mean()  # saves
        self.optimizer.zero_grad()
        replay.update(chosen, errors.detach().abs_().add_(1e-5))  # [bug] harm
        replay.update(chosen, errors.detach().abs().add_(1e-5))  # [fixed]
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    replay, agent = PrioritisedReplay(20), Agent()
    fill(replay, 20, random.Random(0))
    generator = torch.Generator().manual_seed(2)
    for step in range(4):
        print(f"{step}: {agent.learn(replay, generator):.6f}")
        if step % 2:
            agent.target.load_state_dict(agent.online.state_dict())
