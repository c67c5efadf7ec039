"""SAC: the temperature's optimizer steps before the actor's loss, which multiplied by it, is differentiated."""

# bug: raises-backward, tensor=log_alpha
# fixed: correct
# detached: correct
import torch
from torch import nn


def make():
    torch.manual_seed(19)
    actor = nn.Linear(3, 2)
    critic = nn.Linear(5, 1)
    for parameter in critic.parameters():
        parameter.requires_grad_(False)
    log_alpha = torch.tensor(0.3, requires_grad=True)
    return actor, critic, log_alpha, torch.randn(4, 3), torch.randn(4, 1)


def sample(actor, state, noise):
    mean, log_std = actor(state).chunk(2, dim=-1)
    action = torch.tanh(mean + log_std.exp() * noise)
    log_prob = -0.5 * noise**2 - log_std - torch.log(1 - action**2 + 1e-6)
    return action, log_prob.sum(-1)


def run():
    actor, critic, log_alpha, state, noise = make()
    temperature = torch.optim.Adam([log_alpha], lr=0.1)
    action, log_prob = sample(actor, state, noise)
    value = critic(torch.cat([state, action.expand(-1, 2)], -1)).squeeze(-1)
    weighted = log_alpha * log_prob  # [bug] saves
    weighted = log_alpha.detach().clone() * log_prob  # [detached]
    weighted = log_alpha * log_prob  # [fixed]
    actor_loss = (weighted - value).mean()
    alpha_loss = -(log_alpha * (log_prob.detach() - 1.0)).mean()
    temperature.zero_grad()
    alpha_loss.backward()
    temperature.step()  # [bug] harm
    temperature.step()  # [detached]
    actor_loss.backward()
    temperature.step()  # [fixed]
    return {"weight": actor.weight.grad, "bias": actor.bias.grad}


# truth
def truth():
    actor, critic, log_alpha, state, noise = make()
    action, log_prob = sample(actor, state, noise)
    value = critic(torch.cat([state, action, action], -1)).squeeze(-1)
    weight, bias = torch.autograd.grad((0.3 * log_prob - value).mean(), [actor.weight, actor.bias])
    return {"weight": weight, "bias": bias}
