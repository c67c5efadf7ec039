"""A fused loss stashes the probabilities on ctx; the caller then smooths them in place for logging."""

# bug: silently-wrong, tensor=probabilities, watch=blind
# fixed: correct
# saved: raises-backward, tensor=probabilities
import torch
from torch import nn


class SoftmaxCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        probabilities = torch.softmax(logits, dim=1)
        ctx.probabilities = probabilities  # [bug]
        ctx.probabilities = probabilities.clone()  # [fixed]
        ctx.save_for_backward(probabilities)  # [saved]
        ctx.labels = labels
        loss = -probabilities[torch.arange(len(labels)), labels].log().mean()
        ctx.mark_non_differentiable(probabilities)
        return loss, probabilities

    @staticmethod
    def backward(ctx, grad, _):
        probabilities = ctx.probabilities  # [bug fixed]
        (probabilities,) = ctx.saved_tensors  # [saved]
        onehot = nn.functional.one_hot(ctx.labels, probabilities.shape[1])
        return grad * (probabilities - onehot) / len(onehot), None


def make():
    torch.manual_seed(127)
    return nn.Linear(4, 3), torch.randn(6, 4), torch.tensor([0, 2, 1, 1, 0, 2])


def confidence(probabilities):
    probabilities.mul_(0.9).add_(0.1 / 3)  # [bug saved] harm
    probabilities.mul_(0.9).add_(0.1 / 3)  # [fixed]
    return probabilities.max(1).values.mean().item()


def run():
    model, x, labels = make()
    loss, probabilities = SoftmaxCrossEntropy.apply(model(x), labels)
    print_every = 1
    if print_every:
        confidence(probabilities)
    loss.backward()
    return {"weight": model.weight.grad, "bias": model.bias.grad}


# truth
def truth():
    model, x, labels = make()
    loss = nn.functional.cross_entropy(model(x), labels)
    weight, bias = torch.autograd.grad(loss, [model.weight, model.bias])
    return {"weight": weight, "bias": bias}
