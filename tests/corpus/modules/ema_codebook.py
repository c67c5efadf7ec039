"""VQ-VAE: the codebook is moved towards its members while the commitment loss still holds it."""

# bug: silently-wrong, tensor=codebook
# fixed: correct
# no_grad: raises-backward, tensor=codebook
import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.register_buffer("codebook", torch.randn(codes, width))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, z):
        distance = (z[:, None] - self.codebook).pow(2).sum(-1)
        index = distance.argmin(1)
        scaled = self.codebook * self.scale  # saves
        chosen = scaled[index]
        commitment = (z - chosen).pow(2).mean()
        self.move(z.detach(), index)  # [bug no_grad]
        return z + (chosen - z).detach() * 0.5, commitment, index

    def move(self, z, index):
        for code in index.unique():
            mean = z[index == code].mean(0)
            self.codebook.data[code] = 0.9 * self.codebook[code] + 0.1 * mean  # [bug] harm
            self.codebook.data[code] = 0.9 * self.codebook[code] + 0.1 * mean  # [fixed]
            with torch.no_grad():  # [no_grad]
                self.codebook[code] = 0.9 * self.codebook[code] + 0.1 * mean  # [no_grad] harm


def make():
    torch.manual_seed(71)
    return Quantizer(3, 2), nn.Linear(2, 2), torch.randn(6, 2)


def run():
    quantizer, encoder, x = make()
    z = encoder(x)
    quantized, commitment, index = quantizer(z)
    loss = quantized.pow(2).mean() + 0.25 * commitment
    loss.backward()
    quantizer.move(z.detach(), index)  # [fixed]
    return {"encoder": encoder.weight.grad, "scale": quantizer.scale.grad}


# truth
def truth():
    quantizer, encoder, x = make()
    z = encoder(x)
    index = (z[:, None] - quantizer.codebook).pow(2).sum(-1).argmin(1)
    chosen = quantizer.codebook[index] * quantizer.scale
    loss = (z + (chosen - z).detach() * 0.5).pow(2).mean() + 0.25 * (z - chosen).pow(2).mean()
    first, second = torch.autograd.grad(loss, [encoder.weight, quantizer.scale])
    return {"encoder": first, "scale": second}
