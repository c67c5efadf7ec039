"""Running statistics move before backward, but a subtraction saved no value and the divisor is a fresh root."""

# correct, oracle=clone
import torch
import torch.nn as nn


class RunningNorm(nn.Module):
    """observation normalizer a la baselines VecNormalize, but inside the policy"""

    def __init__(self, n, momentum=0.3):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))
        self.momentum = momentum

    @torch.inference_mode()
    def _stats(self, x):
        return x.mean(0), x.var(0)

    def forward(self, x):
        return (x - self.mean) / (self.var + 1e-6).sqrt()

    def update(self, x):
        m, v = (s.clone() for s in self._stats(x.detach()))
        self.mean.mul_(1 - self.momentum).add_(self.momentum * m)
        self.var.lerp_(v, self.momentum)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.norm = RunningNorm(4)
        self.mu = nn.Linear(4, 2)

    def forward(self, obs):
        z = self.embed(obs)
        try:
            return self.mu(torch.tanh(self.norm(z)))
        finally:
            if self.training:
                self.norm.update(z)


def make():
    torch.manual_seed(16)
    return Policy(), torch.randn(9, 3), torch.randn(9, 2)


def run():
    policy, obs, act = make()
    nll = 0.5 * (policy(obs) - act).pow(2).sum(-1).mean()
    policy.norm.update(torch.randn(5, 4))
    nll.backward()
    return {"embed": policy.embed.weight.grad, "mu": policy.mu.weight.grad}
