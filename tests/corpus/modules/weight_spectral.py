"""Spectral normalisation by hand: the power iteration writes its vectors in place."""

# bug: raises-backward, tensor=u
# fixed: correct
# library: correct
import torch
from torch import nn
from torch.nn.functional import normalize


class Spectral(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.register_buffer("u", normalize(torch.randn(outputs), dim=0))
        self.register_buffer("v", normalize(torch.randn(inputs), dim=0))

    def forward(self, x):
        with torch.no_grad():  # [bug fixed]
            self.v.copy_(normalize(self.weight.t() @ self.u, dim=0))  # [bug] harm
            self.u.copy_(normalize(self.weight @ self.v, dim=0))  # [bug] harm
            self.v = normalize(self.weight.t() @ self.u, dim=0)  # [fixed]
            self.u = normalize(self.weight @ self.v, dim=0)  # [fixed]
        sigma = self.u @ self.weight @ self.v  # [bug fixed] saves
        return x @ (self.weight / sigma).t()


def make():
    torch.manual_seed(79)
    layer = Spectral(3, 2)  # [bug fixed]
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2, bias=False))  # [library]
    return layer, torch.randn(4, 3), torch.randn(4, 3)


def run():
    layer, real, fake = make()
    loss = layer(real).sigmoid().mean() - layer(fake).sigmoid().mean()
    loss.backward()
    return {name: parameter.grad for name, parameter in layer.named_parameters()}


# truth
def truth():
    layer, real, fake = make()
    if not hasattr(layer, "u"):  # [library]
        norm = layer.parametrizations.weight[0]  # [library]
        weight, u, v = layer.parametrizations.weight.original, norm._u, norm._v  # [library]
    weight, u, v = layer.weight, layer.u, layer.v  # [bug fixed]
    outputs = []
    for x in (real, fake):
        m = weight.detach()
        u = normalize(m @ v, dim=0)  # [library]
        v = normalize(m.t() @ u, dim=0)
        u = normalize(m @ v, dim=0)  # [bug fixed]
        outputs.append((x @ (weight / (u @ weight @ v)).t()).sigmoid().mean())
    (gradient,) = torch.autograd.grad(outputs[0] - outputs[1], weight)
    return {"parametrizations.weight.original": gradient}  # [library]
    return {"weight": gradient}  # [bug fixed]
