"""IoU loss: clip boxes to the image. RuntimeError: Output 0 of UnbindBackward0 is a view and is being modified inplace"""

# bug: raises-forward
# fixed: correct
# slices: correct
import torch
from torch import nn


def clip_boxes(boxes, size):
    x1, y1, x2, y2 = boxes.unbind(-1)  # [bug fixed]
    x1.clamp_(min=0)  # [bug]
    y1.clamp_(min=0)  # [bug]
    x1, y1 = x1.clamp(min=0), y1.clamp(min=0)  # [fixed]
    x2, y2 = x2.clamp(max=size), y2.clamp(max=size)  # [fixed bug]
    boxes[..., 0].clamp_(min=0)  # [slices]
    boxes[..., 1].clamp_(min=0)  # [slices]
    boxes[..., 2:].clamp_(max=size)  # [slices]
    x1, y1, x2, y2 = boxes.unbind(-1)  # [slices]
    return torch.stack([x1, y1, x2, y2], -1)


def area(b):
    return (b[..., 2] - b[..., 0]).clamp(min=0) * (b[..., 3] - b[..., 1]).clamp(min=0)


def iou(a, b):
    lt = torch.max(a[..., :2], b[..., :2])
    rb = torch.min(a[..., 2:], b[..., 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    return inter / (area(a) + area(b) - inter)


def make():
    torch.manual_seed(6)
    head = nn.Linear(2, 4)
    anchors = torch.tensor([[-0.5, 0.5, 3.0, 4.0], [1.0, -1.0, 6.0, 3.0]])
    truth_boxes = torch.tensor([[0.0, 1.0, 2.5, 3.5], [1.5, 0.0, 4.0, 2.5]])
    return head, torch.randn(2, 2), anchors, truth_boxes


def run():
    head, feats, anchors, gt = make()
    pred = anchors + head(feats)
    loss = (1 - iou(clip_boxes(pred, 5.0), gt)).sum()
    loss.backward()
    return {"w": head.weight.grad, "b": head.bias.grad}


# truth
def truth():
    head, feats, anchors, gt = make()
    p = anchors + head(feats)
    p = torch.cat([p[:, :2].clamp(min=0), p[:, 2:].clamp(max=5.0)], 1)
    w, b = torch.autograd.grad((1 - iou(p, gt)).sum(), [head.weight, head.bias])
    return {"w": w, "b": b}
