"""Rows of a forward table are assigned one by one; reading a row feeds only an addition, which saves nothing."""

# correct, oracle=clone
import torch
from torch import Tensor, nn


class HMM(nn.Module):
    def __init__(self, n_states: int, n_obs: int):
        super().__init__()
        self.pi = nn.Parameter(torch.randn(n_states))
        self.A = nn.Parameter(torch.randn(n_states, n_states))
        self.B = nn.Parameter(torch.randn(n_states, n_obs))

    @property
    def log_A(self) -> Tensor:
        return self.A.log_softmax(1)

    def emission(self, o: Tensor) -> Tensor:
        return self.B.log_softmax(1)[:, o].T

    def log_alpha(self, obs: Tensor) -> Tensor:
        N, T = obs.shape
        alpha = torch.zeros(T, N, self.A.shape[0])
        alpha[0] = self.pi.log_softmax(0) + self.emission(obs[:, 0])
        for t in range(1, T):
            alpha[t] = torch.logsumexp(alpha[t - 1].unsqueeze(2) + self.log_A, dim=1)
            alpha[t] += self.emission(obs[:, t])
        return alpha

    def log_prob(self, obs: Tensor, lengths: Tensor) -> Tensor:
        alpha = self.log_alpha(obs)
        last = alpha[lengths - 1, torch.arange(obs.shape[0])]
        return last.logsumexp(-1)


def make():
    torch.manual_seed(48)
    return HMM(3, 5), torch.randint(0, 5, (4, 6)), torch.tensor([6, 4, 5, 2])


def run():
    hmm, obs, lengths = make()
    nll = -hmm.log_prob(obs, lengths).mean()
    nll.backward()
    return {"pi": hmm.pi.grad, "A": hmm.A.grad, "B": hmm.B.grad}
