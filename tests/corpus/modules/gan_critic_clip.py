"""A Wasserstein critic's weights are clipped through .data between its forward and its backward."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# no_grad: raises-backward, tensor=weight
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def make():
    torch.manual_seed(5)
    return Critic(), torch.randn(6, 3), torch.randn(6, 3)


def clip_weights(critic, bound):
    for parameter in critic.parameters():
        parameter.data.clamp_(-bound, bound)  # [bug] harm
        parameter.data.clamp_(-bound, bound)  # [fixed]
        with torch.no_grad():  # [no_grad]
            parameter.clamp_(-bound, bound)  # [no_grad] harm


def run():
    critic, real, fake = make()
    clip_weights(critic, 0.3)  # [fixed]
    with torch.no_grad():  # [fixed]
        for parameter in critic.parameters():  # [fixed]
            parameter.mul_(1.0)  # [fixed]
    loss = critic(fake).mean() - critic(real).mean()  # [fixed]
    scores_fake = critic(fake)  # [bug no_grad]
    scores_real = critic(real)  # [bug no_grad]
    loss = scores_fake.mean() - scores_real.mean()  # [bug no_grad]
    clip_weights(critic, 0.1)  # [bug no_grad]
    loss.backward()
    clip_weights(critic, 0.1)  # [fixed]
    return {name: parameter.grad for name, parameter in critic.named_parameters()}


# truth
def truth():
    critic, real, fake = make()
    clip_weights(critic, 0.3)  # [fixed]
    p = [q.detach().clone().requires_grad_() for q in critic.parameters()]

    def score(x):
        return (x @ p[0].t() + p[1]).tanh() @ p[2].t() + p[3]

    gradients = torch.autograd.grad(score(fake).mean() - score(real).mean(), p)
    return dict(zip(("first.weight", "first.bias", "second.weight", "second.bias"), gradients))
