"""why does my numerically stable softmax not train?"""

# bug: raises-backward, tensor=e
# fixed: correct
# shift: correct
# data: silently-wrong, watch=blind
import torch


def stable_softmax(z):
    z = z - z.max(dim=-1, keepdim=True).values  # [bug fixed data]
    z -= z.max(dim=-1, keepdim=True).values  # [shift]
    e = z.exp()  # [bug data] saves
    e = z.exp()  # [fixed shift]
    e /= e.sum(-1, keepdim=True)  # [bug] harm
    e.data /= e.data.sum(-1, keepdim=True)  # [data] harm
    e = e / e.sum(-1, keepdim=True)  # [fixed shift]
    return e


def focal(p, target, gamma=2.0):
    pt = p.gather(1, target.unsqueeze(1)).squeeze(1)
    return (-((1 - pt) ** gamma) * torch.log(pt + 1e-8)).mean()


def make():
    g = torch.Generator().manual_seed(4)
    W = torch.randn(3, 4, generator=g, requires_grad=True)
    x = torch.randn(5, 3, generator=g)
    t = torch.tensor([0, 3, 1, 2, 2])
    return W, x, t


def run():
    W, x, t = make()
    logits = x @ W
    p = stable_softmax(logits)
    loss = focal(p, t) + 0.01 * W.abs().sum()
    loss.backward()
    return dict(W=W.grad)


# truth
def truth():
    W, x, t = make()
    z = x @ W
    e = (z - z.max(-1, keepdim=True).values.detach()).exp()
    p = e / e.sum(-1, keepdim=True)
    return {"W": torch.autograd.grad(focal(p, t) + 0.01 * W.abs().sum(), W)[0]}
