"""A network that starts with ReLU(inplace=True) would write into the image, a leaf that requires grad."""

# raises-forward
import torch
import torch.nn as nn


def conv_block(cin, cout):
    # pre-activation style
    return nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(cin, cout, 3, padding=1))


class PreActNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_block(1, 3), conv_block(3, 4))
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        x = self.features(x)
        return self.fc(x.mean(dim=(2, 3)))


def make():
    torch.manual_seed(23)
    return PreActNet().eval(), torch.randn(1, 1, 6, 6)


def run():
    net, image = make()
    image.requires_grad_()
    for p in net.parameters():
        p.requires_grad_(False)

    logits = net(image)
    top = logits.argmax(1).item()
    logits[0, top].backward()
    return {"saliency": image.grad}
