"""Labels are smoothed and logits clamped in place inside the loss."""

# bug: raises-backward, tensor=log_probabilities
# fixed: correct
# logits: correct
import torch
from torch import nn


def smooth(labels, classes, epsilon):
    target = torch.zeros(len(labels), classes)
    target.scatter_(1, labels[:, None], 1.0)
    target.mul_(1 - epsilon).add_(epsilon / classes)
    return target


def loss_of(logits, target):
    logits.clamp_(-2.0, 2.0)  # [logits]
    log_probabilities = torch.log_softmax(logits, dim=1)  # [bug] saves
    log_probabilities = torch.log_softmax(logits, dim=1)  # [fixed logits]
    log_probabilities.clamp_(min=-2.0)  # [bug] harm
    log_probabilities = log_probabilities.clamp(min=-2.0)  # [fixed]
    return -(target * log_probabilities).sum(1).mean()


def make():
    torch.manual_seed(181)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3))
    return net, torch.randn(5, 4) * 3, torch.tensor([0, 2, 1, 0, 1])


def run():
    net, x, labels = make()
    target = smooth(labels, 3, epsilon=0.1)
    loss = loss_of(net(x), target)
    net.zero_grad()
    loss.backward()
    return {name: parameter.grad for name, parameter in net.named_parameters()}


# truth
def truth():
    net, x, labels = make()
    target = nn.functional.one_hot(labels, 3) * 0.9 + 0.1 / 3
    logits = net[2](torch.relu(net[0](x)))
    logits = logits.clamp(-2.0, 2.0)  # [logits]
    log_probabilities = logits - logits.logsumexp(1, keepdim=True)
    log_probabilities = log_probabilities.clamp(min=-2.0)  # [fixed]
    loss = -(target * log_probabilities).sum(1).mean()
    names = [name for name, _ in net.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(net.parameters()))))
