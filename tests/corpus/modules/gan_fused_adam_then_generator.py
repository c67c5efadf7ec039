"""A fused Adam writes the discriminator's weights, its counter unmoved, before the generator's backward needs them."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn
import torch.nn.functional as F


def bce(logit, real):
    return F.binary_cross_entropy_with_logits(logit, torch.full_like(logit, float(real)))


class LitGAN:
    def __init__(self, z=3, h=6):
        self.gen = nn.Sequential(nn.Linear(z, h), nn.ELU(), nn.Linear(h, 2))
        self.disc = nn.Sequential(nn.Linear(2, h), nn.ELU(), nn.Linear(h, 1))
        self.z = z

    def configure_optimizers(self):
        kw = dict(lr=0.05, betas=(0.5, 0.99), fused=True)
        return [torch.optim.Adam(m.parameters(), **kw) for m in (self.gen, self.disc)]

    def shared_step(self, real):
        fake = self.gen(torch.randn(len(real), self.z))
        d_loss = bce(self.disc(real), 1) + bce(self.disc(fake.detach()), 0)
        g_loss = bce(self.disc(fake), 1)  # saves
        return {"d": d_loss, "g": g_loss}


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()  # harm


def make():
    torch.manual_seed(50)
    return LitGAN(), torch.randn(8, 2) * 0.3 + 1


def run():
    lit, real = make()
    opt_g, opt_d = lit.configure_optimizers()
    losses = lit.shared_step(real)
    step(opt_d, losses["d"])
    step(opt_g, losses["g"])
    return {n: p.grad for n, p in lit.gen.named_parameters()}
