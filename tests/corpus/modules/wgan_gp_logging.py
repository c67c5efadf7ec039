"""The gradient's norm in a penalty has saved the gradient, and clamp_ for a histogram writes it before the penalty's backward."""

# raises-backward
import torch
from torch import nn, autograd


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(3, 7)
        self.l2 = nn.Linear(7, 1)

    def forward(self, x):
        return self.l2(torch.tanh(self.l1(x)))


histograms = []


def log_hist(t, lo=-0.05, hi=0.05):
    # keep outliers from blowing up the tensorboard axis
    t.clamp_(lo, hi)  # harm
    histograms.append(torch.histc(t.detach(), bins=10, min=lo, max=hi))


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix)
    (g,) = autograd.grad(score.sum(), mix, create_graph=True)
    penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()  # saves
    log_hist(g)
    return penalty


def make():
    torch.manual_seed(17)
    return Critic(), torch.randn(5, 3), torch.randn(5, 3)


def run():
    critic, real, fake = make()
    loss = critic(fake).mean() - critic(real).mean()
    loss = loss + 10.0 * gradient_penalty(critic, real, fake)
    loss.backward()
    return {n: p.grad for n, p in critic.named_parameters()}
