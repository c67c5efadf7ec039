"""The discriminator steps before the generator's loss, which runs through it, is differentiated."""

# bug: raises-backward, tensor=weight
# fixed: correct
# fused: silently-wrong, tensor=weight
import torch
from torch import nn


def make():
    torch.manual_seed(3)
    generator = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
    discriminator = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
    real = torch.randn(5, 3)
    noise = torch.randn(5, 2)
    return generator, discriminator, real, noise


def run():
    generator, discriminator, real, noise = make()
    bce = nn.BCEWithLogitsLoss()
    optimizer_d = torch.optim.SGD(discriminator.parameters(), lr=0.5)  # [bug fixed]
    optimizer_d = torch.optim.SGD(discriminator.parameters(), lr=0.5, fused=True)  # [fused]
    ones, zeros = torch.ones(5, 1), torch.zeros(5, 1)

    fake = generator(noise)
    score = discriminator(fake)  # saves
    loss_g = bce(score, ones)
    loss_d = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)

    optimizer_d.zero_grad()
    loss_d.backward()
    loss_g.backward()  # [fixed]
    optimizer_d.step()  # [bug fused] harm
    loss_g.backward()  # [bug fused]
    return {name: parameter.grad for name, parameter in generator.named_parameters()}


# truth
def truth():
    generator, discriminator, real, noise = make()
    score = discriminator(generator(noise))
    loss = torch.nn.functional.softplus(-score).mean()
    parameters = dict(generator.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
