"""Anchors and boxes: targets are clamped, filled and scattered in place before and beside the graph; right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


class Anchors:
    def __init__(self, image=8, step=4, size=3.0):
        centre = torch.arange(step / 2, image, step)
        y, x = torch.meshgrid(centre, centre, indexing="ij")
        self.boxes = torch.stack([x, y, torch.full_like(x, size), torch.full_like(y, size)], -1).view(-1, 4)

    def encode(self, boxes):
        out = boxes - self.boxes
        out[:, :2] /= self.boxes[:, 2:]
        out[:, 2:] = (boxes[..., 2:] / self.boxes[:, 2:]).log()
        return out


def corners(boxes):
    half = boxes[..., 2:] / 2
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def overlap(a, b):
    a, b = corners(a)[:, None], corners(b)[None]
    size = torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])
    size.clamp_(min=0)
    shared = size.prod(-1)
    area = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    return shared / (area - shared)


class Detector(nn.Module):
    def __init__(self, anchors):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(6, 8, 3, 2, 1), nn.ReLU(inplace=True)
        )
        self.objectness, self.offsets = nn.Conv2d(8, 1, 1), nn.Conv2d(8, 4, 1)
        self.anchors = anchors

    def forward(self, images):
        features = self.body(images)
        return self.objectness(features).flatten(1), self.offsets(features).flatten(2).transpose(1, 2)

    def loss(self, images, boxes):
        objectness, offsets = self(images)
        labels = torch.zeros_like(objectness)
        goals = torch.zeros_like(offsets)
        for row, box in enumerate(boxes):
            score = overlap(self.anchors.boxes, box[None]).squeeze(1)
            labels[row, score.argmax()] = 1.0
            labels[row, score > 0.4] = 1.0
            goals[row] = self.anchors.encode(box)
        weights = torch.ones_like(labels).masked_fill_(labels == 0, 0.3)
        found = F.binary_cross_entropy_with_logits(objectness, labels, weights)
        place = F.smooth_l1_loss(offsets, goals, reduction="none").sum(-1)
        place[labels == 0] = 0.0
        return found + place.sum() / labels.sum()


def pictures(count, generator):
    images = 0.1 * torch.randn(count, 1, 8, 8, generator=generator)
    boxes = torch.zeros(count, 4)
    for image, box in zip(images, boxes):
        x, y = (torch.rand(2, generator=generator) * 4 + 2).tolist()
        box.copy_(torch.tensor([x, y, 3.0, 2.5]))
        image[0, int(y) - 1 : int(y) + 2, int(x) - 1 : int(x) + 2] += 1.0
    return images, boxes


torch.manual_seed(107)
generator = torch.Generator().manual_seed(107)
detector = Detector(Anchors())
optimizer = torch.optim.SGD(detector.parameters(), lr=0.05, momentum=0.9)
for step in range(3):
    loss = detector.loss(*pictures(4, generator))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step} {loss.item():.5f}")
