"""WGAN-GP: the interpolated batch is built in the buffer that still holds the fake batch."""

# bug: raises-backward, tensor=mixed
# fixed: correct
# harmless: correct
import torch
from torch import nn


def make():
    torch.manual_seed(7)
    critic = nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1))
    return critic, torch.randn(4, 2), torch.randn(4, 2), torch.rand(4, 1)


def gradient_penalty(critic, real, fake, alpha):
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_()
    score = critic(mixed)
    (gradient,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    norm = gradient.norm(2, dim=1)
    return ((norm - 1) ** 2).mean()


def run():
    critic, real, fake, alpha = make()
    mixed = fake.clone()  # [bug harmless]
    score_fake = critic(mixed)  # [bug] saves
    mixed.lerp_(real, alpha)  # [bug] harm
    mixed.lerp_(real, alpha)  # [harmless]
    score_fake = critic(fake)  # [fixed harmless]
    score_real = critic(real)
    penalty = gradient_penalty(critic, real, fake, alpha)
    loss = score_fake.mean() - score_real.mean() + 10 * penalty
    critic.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(critic.parameters(), 1e6)
    return {"first": critic[0].weight.grad, "second": critic[2].weight.grad}


# truth
def truth():
    critic, real, fake, alpha = make()
    w, b, v = critic[0].weight, critic[0].bias, critic[2].weight
    x = alpha * real + (1 - alpha) * fake
    slope = torch.sigmoid(x @ w.t() + b) * v @ w
    penalty = ((slope.pow(2).sum(1).sqrt() - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    first, second = torch.autograd.grad(loss, [w, v])
    return {"first": first, "second": second}
