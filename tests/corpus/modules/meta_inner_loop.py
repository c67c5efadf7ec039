"""MAML: the inner step is written into the parameters before the outer gradient has run over it."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# first_order: correct
import copy

import torch
from torch import nn


def make():
    torch.manual_seed(109)
    model = nn.Linear(2, 1)
    support = torch.randn(5, 2), torch.randn(5, 1)
    query = torch.randn(5, 2), torch.randn(5, 1)
    return model, support, query


def predict(weight, bias, x):
    return torch.tanh(x @ weight.t() + bias) * weight.norm()  # saves


def mse(weight, bias, batch):
    x, y = batch
    return (predict(weight, bias, x) - y).pow(2).mean()


def run():
    model, support, query = make()
    weight, bias = model.weight, model.bias
    inner = mse(weight, bias, support)
    grads = torch.autograd.grad(inner, [weight, bias], create_graph=True)  # [bug fixed]
    fast = [weight - 0.1 * grads[0], bias - 0.1 * grads[1]]  # [bug fixed]
    outer = mse(*fast, query) + grads[0].pow(2).sum()  # [bug fixed]
    with torch.no_grad():  # [bug fixed]
        step = [0.1 * grad for grad in grads]  # [bug fixed]
    weight.data -= step[0]  # [bug] harm
    copied = copy.deepcopy(model)  # [first_order]
    mse(copied.weight, copied.bias, support).backward()  # [first_order]
    with torch.no_grad():  # [first_order]
        for parameter in copied.parameters():  # [first_order]
            parameter -= 0.1 * parameter.grad  # [first_order]
    copied.zero_grad()  # [first_order]
    outer = mse(copied.weight, copied.bias, query)  # [first_order]
    outer.backward()
    weight.data -= step[0]  # [fixed]
    weight, bias = copied.weight, copied.bias  # [first_order]
    return {"weight": weight.grad, "bias": bias.grad}


# truth
def truth():
    model, support, query = make()
    w, b = model.weight, model.bias
    g, h = torch.autograd.grad(mse(w, b, support), [w, b], create_graph=True)
    fast = [w - 0.1 * g, b - 0.1 * h]
    fast = [f.detach().requires_grad_() for f in fast]  # [first_order]
    w, b = fast  # [first_order]
    outer = mse(*fast, query)
    outer = outer + g.pow(2).sum()  # [bug fixed]
    weight, bias = torch.autograd.grad(outer, [w, b])
    return {"weight": weight, "bias": bias}
