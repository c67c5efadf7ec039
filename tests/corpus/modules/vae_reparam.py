"""VAE: exp_() in reparameterize is fine in the official example; why not in mine?"""

# bug: raises-backward, tensor=var
# official: correct
# fixed: correct
import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(3, 4)
        self.dec = nn.Linear(2, 3)

    def reparameterize(self, mu, logvar, eps):
        std = logvar.mul(0.5).exp_()  # [official]
        var = logvar.exp()  # [bug] saves
        std = var.sqrt_()  # [bug] harm
        var = logvar.exp()  # [fixed]
        std = var.sqrt()  # [fixed]
        return eps.mul(std).add_(mu)

    def forward(self, x, eps):
        mu, logvar = self.enc(x).split(2, dim=1)
        z = self.reparameterize(mu, logvar, eps)
        return torch.sigmoid(self.dec(z)), mu, logvar


def elbo(recon, x, mu, logvar):
    bce = nn.functional.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def make():
    torch.manual_seed(36)
    return VAE(), torch.rand(4, 3), torch.randn(4, 2)


def run():
    vae, x, eps = make()
    loss = elbo(*(lambda out: (out[0], x, out[1], out[2]))(vae(x, eps)))
    loss.backward()
    return {"enc": vae.enc.weight.grad, "dec": vae.dec.weight.grad}


# truth
def truth():
    vae, x, eps = make()
    mu, lv = vae.enc(x)[:, :2], vae.enc(x)[:, 2:]
    out = vae.dec(mu + eps * (lv / 2).exp())
    bce = nn.functional.binary_cross_entropy_with_logits(out, x, reduction="sum")
    loss = bce - 0.5 * (1 + lv - mu**2 - lv.exp()).sum()
    a, b = torch.autograd.grad(loss, [vae.enc.weight, vae.dec.weight])
    return {"enc": a, "dec": b}
