"""The generator's loss was built through the critic's old weights, and the critic's step writes them before its backward."""

# raises-backward
import torch
from torch import nn

# minimal version of my GAN, worked on torch 1.4, breaks since I upgraded


class Discriminator(nn.Module):
    def __init__(self, nf=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, nf), nn.LeakyReLU(0.2), nn.Linear(nf, 1))

    def forward(self, img):
        return self.body(img).squeeze(-1)  # saves


def make():
    torch.manual_seed(3)
    netG = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 4))
    netD = Discriminator()
    real = torch.randn(8, 4) + 1.0
    noise = torch.randn(8, 2)
    return netG, netD, real, noise


def run():
    netG, netD, real, noise = make()
    opt_g = torch.optim.SGD(netG.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(netD.parameters(), lr=0.1)
    bce = nn.BCEWithLogitsLoss()

    fake = netG(noise)
    out_fake = netD(fake)
    d_loss = bce(netD(real), torch.ones(8)) + bce(out_fake, torch.zeros(8))
    g_loss = bce(out_fake, torch.ones(8))

    opt_d.zero_grad()
    d_loss.backward(retain_graph=True)
    opt_d.step()  # harm

    opt_g.zero_grad()
    g_loss.backward()
    grads = {n: p.grad.clone() for n, p in netG.named_parameters()}
    opt_g.step()
    return grads
