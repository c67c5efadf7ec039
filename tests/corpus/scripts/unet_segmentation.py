"""A small U-Net with autocast to bfloat16, accumulated gradients and clipping, all right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


def double_conv(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1),
        nn.GroupNorm(2, outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=4):
        super().__init__()
        self.down1 = double_conv(1, base)
        self.down2 = double_conv(base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.merge = double_conv(2 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skip = self.down1(x)
        low = self.down2(F.max_pool2d(skip, 2))
        both = torch.cat([skip, self.up(low)], dim=1)
        return self.out(self.merge(both))


def dice(logits, masks, smooth=1.0):
    probability = logits.sigmoid().flatten(1)
    masks = masks.flatten(1)
    shared = (probability * masks).sum(1)
    return (1 - (2 * shared + smooth) / (probability.sum(1) + masks.sum(1) + smooth)).mean()


class Discs(torch.utils.data.IterableDataset):
    def __init__(self, count, size=8):
        self.count, self.size = count, size

    def __iter__(self):
        generator = torch.Generator().manual_seed(61)
        rows = torch.arange(self.size).float()
        for _ in range(self.count):
            y, x = torch.rand(2, generator=generator) * self.size
            mask = ((rows[:, None] - y) ** 2 + (rows[None] - x) ** 2 < 6).float()[None]
            image = mask + 0.3 * torch.randn(mask.shape, generator=generator)
            image -= image.mean()
            image /= image.std()
            yield image, mask


def main(accumulate=2):
    torch.manual_seed(61)
    model = UNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    running = torch.zeros(())
    optimizer.zero_grad()
    for number, (images, masks) in enumerate(torch.utils.data.DataLoader(Discs(8), batch_size=2)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(images)
        loss = F.binary_cross_entropy_with_logits(logits.float(), masks) + dice(logits.float(), masks)
        loss /= accumulate
        loss.backward()
        running += loss.detach()
        if (number + 1) % accumulate == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(f"{number}: {running.item():.4f}")
            running.zero_()


if __name__ == "__main__":
    main()
