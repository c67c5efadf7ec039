"""A pruning mask is applied to the weights by .data.mul_ between forward and backward."""

# bug: silently-wrong, tensor=weight
# fixed: correct
# masked_gradient: correct
import torch
from torch import nn


class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.b = nn.Linear(3, 1)
        self.masks = {}

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))  # saves

    def prune(self, share):
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                limit = parameter.abs().flatten().quantile(share)
                self.masks[name] = (parameter.abs() >= limit).float()

    def apply_masks(self):
        for name, parameter in self.named_parameters():
            if name in self.masks:
                parameter.data.mul_(self.masks[name])  # [bug] harm
                parameter.data.mul_(self.masks[name])  # [fixed masked_gradient]


def make():
    torch.manual_seed(83)
    return Pruned(), torch.randn(5, 4), torch.randn(5, 1)


def run():
    net, x, y = make()
    net.prune(0.5)
    net.apply_masks()  # [fixed masked_gradient]
    loss = (net(x) - y).pow(2).mean()
    net.apply_masks()  # [bug]
    loss.backward()
    for name, parameter in net.named_parameters():  # [masked_gradient]
        if name in net.masks:  # [masked_gradient]
            parameter.grad.mul_(net.masks[name])  # [masked_gradient]
    return {"a": net.a.weight.grad, "b": net.b.weight.grad}


# truth
def truth():
    net, x, y = make()
    net.prune(0.5)
    a, b = net.a.weight.detach().clone(), net.b.weight.detach().clone()
    a, b = a * net.masks["a.weight"], b * net.masks["b.weight"]  # [fixed masked_gradient]
    a.requires_grad_(), b.requires_grad_()
    out = (x @ a.t() + net.a.bias).tanh() @ b.t() + net.b.bias
    da, db = torch.autograd.grad((out - y).pow(2).mean(), [a, b])
    da, db = da * net.masks["a.weight"], db * net.masks["b.weight"]  # [masked_gradient]
    return {"a": da, "b": db}
