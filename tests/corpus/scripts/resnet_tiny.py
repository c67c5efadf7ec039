"""A small residual network whose blocks add the shortcut in place to what the activation gave."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = torch.tanh(self.bn2(self.conv2(out)))  # saves
        out += self.shortcut(x)  # [bug] harm
        out = out + self.shortcut(x)  # [fixed]
        return out


class TinyResNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.stage1 = BasicBlock(4, 4)
        self.stage2 = BasicBlock(4, 8, stride=2)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = self.stage2(self.stage1(self.stem(x)))
        return self.head(x.mean(dim=(2, 3)))


class Squares(torch.utils.data.Dataset):
    """Noise with a bright square; the class is the channel it lies in."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(5)
        self.images = torch.randn(count, 3, 8, 8, generator=generator) * 0.1
        self.labels = torch.randint(3, (count,), generator=generator)
        for image, label in zip(self.images, self.labels):
            image[label, 2:6, 2:6] += 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


def train_one_epoch(model, loader, optimizer, epoch):
    model.train()
    total, right = 0.0, 0
    for images, labels in loader:
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        right += (logits.argmax(1) == labels).sum().item()
    print(f"epoch {epoch}: loss {total / len(loader.dataset):.4f}, {right} right")


def main():
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(Squares(12), batch_size=6)
    model = TinyResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(2):
        train_one_epoch(model, loader, optimizer, epoch)


if __name__ == "__main__":
    main()
