"""REINFORCE on a grid with a baseline; returns are normalised in place, illegal moves masked before the softmax; right."""

# correct
import torch
from torch import nn
from torch.distributions import Categorical

MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Grid:
    def __init__(self, size=4):
        self.size = size

    def reset(self):
        self.place = torch.zeros(2, dtype=torch.long)
        return self.observe()

    def observe(self):
        board = torch.zeros(self.size, self.size)
        board[tuple(self.place)] = 1.0
        return board.flatten()

    def illegal(self):
        after = self.place + MOVES
        return ((after < 0) | (after >= self.size)).any(1)

    def step(self, move):
        self.place += MOVES[move]
        done = bool((self.place == self.size - 1).all())
        return self.observe(), 1.0 if done else -0.05, done


class Policy(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Linear(size * size, 16)
        self.move, self.value = nn.Linear(16, 4), nn.Linear(16, 1)

    def forward(self, board, illegal):
        hidden = torch.tanh(self.body(board))
        logits = self.move(hidden)
        logits[illegal] = -1e8
        return Categorical(logits=logits), self.value(hidden).squeeze()


def play(grid, policy, longest=10):
    board, log_probs, values, rewards, entropy = grid.reset(), [], [], [], torch.zeros(())
    for _ in range(longest):
        choice, value = policy(board, grid.illegal())
        move = choice.sample()
        log_probs.append(choice.log_prob(move))
        values.append(value)
        entropy += choice.entropy()
        board, reward, done = grid.step(move)
        rewards.append(reward)
        if done:
            break
    return torch.stack(log_probs), torch.stack(values), rewards, entropy


def returns_of(rewards, gamma=0.95):
    returns = torch.zeros(len(rewards))
    total = 0.0
    for t in reversed(range(len(rewards))):
        total = rewards[t] + gamma * total
        returns[t] = total
    return returns.sub_(returns.mean()).div_(returns.std() + 1e-6)


def main():
    torch.manual_seed(83)
    grid, policy = Grid(), Policy(4)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(4):
        log_probs, values, rewards, entropy = play(grid, policy)
        returns = returns_of(rewards)
        advantage = (returns - values).detach()
        loss = -(log_probs * advantage).sum() + (returns - values).pow(2).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 0.5)
        optimizer.step()
        print(f"episode {episode}: {sum(rewards):.2f} {loss.item():.4f}")


if __name__ == "__main__":
    main()
