"""DQN: the table of target values is the network's own output, written in place at the taken actions."""

# bug: raises-backward, tensor=scale
# fixed: correct
# detached: correct
import torch
from torch import nn


def make():
    torch.manual_seed(13)
    online = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    target = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    target.load_state_dict(online.state_dict())
    for parameter in target.parameters():
        parameter.requires_grad_(False)
    batch = {
        "state": torch.randn(4, 3),
        "action": torch.tensor([0, 1, 1, 0]),
        "reward": torch.rand(4),
        "next": torch.randn(4, 3),
    }
    return online, target, batch


def run():
    online, target, batch = make()
    values = online(batch["state"])
    best = target(batch["next"]).max(1).values
    best.mul_(0.99).add_(batch["reward"])
    rows = torch.arange(4)
    scale = torch.exp(-values)  # saves
    goal = scale  # [bug]
    goal = scale.clone()  # [fixed]
    goal = scale.detach().clone()  # [detached]
    goal[rows, batch["action"]] = best  # [bug] harm
    goal[rows, batch["action"]] = best  # [fixed detached]
    loss = ((values - goal.detach()) ** 2 + 0.1 * scale).mean()  # [fixed detached]
    loss = ((values - goal.detach()) ** 2 + 0.1 * scale).mean()  # [bug]
    online.zero_grad()
    loss.backward()
    return {name: parameter.grad for name, parameter in online.named_parameters()}


# truth
def truth():
    online, target, batch = make()
    values = online(batch["state"])
    best = target(batch["next"]).max(1).values * 0.99 + batch["reward"]
    chosen = torch.nn.functional.one_hot(batch["action"], 2).bool()
    goal = torch.where(chosen, best[:, None], (-values).exp()).detach()
    loss = ((values - goal) ** 2 + 0.1 * (-values).exp()).mean()
    names = [name for name, _ in online.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(online.parameters()))))
