"""A hand-written backward builds a gradient in its saved gate, which is also the saved output of the exp below."""

# bug: raises-backward, watch=blind
# fixed: correct
import torch
import torch.nn.functional as F


class FusedGLU(torch.autograd.Function):
    # memory-lean a la triton kernels: reuse the activations as grad buffers

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return gate * torch.sigmoid(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        sig = torch.sigmoid(gate)
        d_up = grad * gate * sig
        d_gate = gate.mul_(1 - sig).add_(1).mul_(sig).mul_(up).mul_(grad)  # [bug] harm
        d_gate = (gate * (1 - sig) + 1) * sig * up * grad  # [fixed]
        return d_gate, d_up


def feed_forward(p, x):
    h = torch.exp(-F.linear(x, p["gate"]).abs())
    u = F.linear(x, p["up"])
    return F.linear(FusedGLU.apply(h, u), p["down"])


def make():
    torch.manual_seed(14)
    p = {"gate": torch.randn(6, 4), "up": torch.randn(6, 4), "down": torch.randn(4, 6)}
    return {k: v.mul(0.4).requires_grad_() for k, v in p.items()}, torch.randn(3, 4)


def run():
    params, x = make()
    y = x + feed_forward(params, x)
    loss = y.square().mean()
    loss.backward()
    return {k: v.grad for k, v in params.items()}


# truth
def truth():
    FusedGLU.apply = staticmethod(lambda gate, up: F.silu(gate) * up)
    return run()
