"""Neural style: keep the image in [0, 1] — inside the closure, but where?"""

# bug: silently-wrong, tensor=image
# fixed: correct
# library: correct
import torch
from torch import nn


def gram(f):
    c = f.shape[0]
    f = f.reshape(c, -1)
    return f @ f.t() / f.shape[1]


def make():
    torch.manual_seed(34)
    extractor = nn.Conv2d(1, 2, 2).requires_grad_(False)
    content, style = torch.rand(1, 4, 4), torch.rand(1, 4, 4)
    image = (content * 3 - 1).clone().requires_grad_()
    return extractor, image, style


def transfer(extractor, image, style, steps):
    goal = gram(extractor(style))
    opt = torch.optim.SGD([image], lr=0.0)
    seen = []

    def closure():
        image.data.clamp_(0, 1)  # [fixed]
        opt.zero_grad()
        x = image  # [bug fixed]
        x = image.clamp(0, 1)  # [library]
        tv = (x[:, 1:] * x[:, :-1]).sum()
        loss = (gram(extractor(x)) - goal).pow(2).sum() + 0.1 * tv
        image.data.clamp_(0, 1)  # [bug] harm
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(steps):
        opt.step(closure)
    return seen


def run():
    extractor, image, style = make()
    history = transfer(extractor, image, style, 1)
    assert len(history) == 1
    return {"image": image.grad}


# truth
def truth():
    extractor, image, style = make()
    leaf = image.detach().clone().requires_grad_()
    leaf = image.detach().clamp(0, 1).requires_grad_()  # [fixed]
    x = leaf
    x = leaf.clamp(0, 1)  # [library]
    loss = (gram(extractor(x)) - gram(extractor(style))).pow(2).sum() + 0.1 * (x[:, 1:] * x[:, :-1]).sum()
    return {"image": torch.autograd.grad(loss, leaf)[0]}
