"""Style transfer by gradient descent on the pixels, which are clamped in place although they are a leaf."""

# bug: raises-forward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class Features(nn.Module):
    """A fixed random network in the place of VGG."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 8, 3, padding=1, stride=2)
        self.requires_grad_(False)

    def forward(self, image):
        one = F.relu(self.conv1(image))
        return one, F.relu(self.conv2(one))


def gram(features):
    batch, channels, height, width = features.shape
    flat = features.view(batch, channels, height * width)
    return flat @ flat.transpose(1, 2) / (channels * height * width)


def total_variation(image):
    across = (image[..., 1:] - image[..., :-1]).abs().mean()
    down = (image[..., 1:, :] - image[..., :-1, :]).abs().mean()
    return across + down


class Transfer:
    def __init__(self, content, style, weight=50.0):
        self.network = Features()
        self.image = content.clone().requires_grad_(True)
        with torch.no_grad():
            self.content = self.network(content)[-1]
            self.style = [gram(layer) for layer in self.network(style)]
        self.weight = weight
        self.optimizer = torch.optim.Adam([self.image], lr=0.05)

    def loss(self):
        layers = self.network(self.image)
        content = F.mse_loss(layers[-1], self.content)
        style = sum(F.mse_loss(gram(layer), target) for layer, target in zip(layers, self.style))
        return content + self.weight * style + 0.01 * total_variation(self.image)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        self.image.clamp_(0, 1)  # [bug] harm
        with torch.no_grad():  # [fixed]
            self.image.clamp_(0, 1)  # [fixed]
        return loss.item()


def checkerboard(size):
    rows = torch.arange(size)
    return ((rows[:, None] // 2 + rows[None] // 2) % 2).float().expand(1, 3, size, size).contiguous()


def main():
    torch.manual_seed(29)
    content = torch.rand(1, 3, 8, 8)
    transfer = Transfer(content, checkerboard(8))
    for step in range(3):
        print(f"step {step}: {transfer.step():.6f}")
    print("range", round(transfer.image.min().item(), 3), round(transfer.image.max().item(), 3))


if __name__ == "__main__":
    main()
