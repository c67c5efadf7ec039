"""Two optimizers over a shared encoder: the critic steps, then the actor's loss goes back through the encoder."""

# bug: raises-backward, tensor=weight
# fixed: correct
# cut: correct
import torch
from torch import nn


def make():
    torch.manual_seed(23)
    encoder = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 4))
    actor = nn.Linear(4, 2)
    critic = nn.Linear(4, 1)
    return encoder, actor, critic, torch.randn(5, 3), torch.randn(5)


def run():
    encoder, actor, critic, states, returns = make()
    critic_parameters = [*encoder.parameters(), *critic.parameters()]
    optimizer = torch.optim.RMSprop(critic_parameters, lr=0.01)
    features = encoder(states)  # saves
    value = critic(features).squeeze(-1)
    advantage = (returns - value).detach()
    logits = actor(features)  # [bug fixed]
    logits = actor(features.detach())  # [cut]
    actor_loss = -(torch.log_softmax(logits, -1)[:, 0] * advantage).mean()
    critic_loss = (returns - value).pow(2).mean()
    optimizer.zero_grad()
    critic_loss.backward(retain_graph=True)  # [bug]
    critic_loss.backward()  # [cut]
    optimizer.step()  # [bug] harm
    optimizer.step()  # [cut]
    actor_loss.backward()  # [bug cut]
    (actor_loss + critic_loss).backward()  # [fixed]
    optimizer.step()  # [fixed]
    return {"actor": actor.weight.grad, "critic": critic.weight.grad}


# truth
def truth():
    encoder, actor, critic, states, returns = make()
    features = encoder(states)
    value = critic(features).squeeze(-1)
    chosen = torch.log_softmax(actor(features), -1)[:, 0]
    loss = -(chosen * (returns - value).detach()).mean() + (returns - value).pow(2).mean()
    first, second = torch.autograd.grad(loss, [actor.weight, critic.weight])
    return {"actor": first, "critic": second}
