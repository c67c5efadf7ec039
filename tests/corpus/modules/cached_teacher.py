"""The cached teacher features are inference tensors and the student's projection would have to save them for backward."""

# raises-forward
import torch
import torch.nn as nn


class FeatureCache:
    def __init__(self, backbone):
        self.backbone = backbone.eval()
        self._store = {}

    @torch.inference_mode()
    def get(self, key, x):
        if key not in self._store:
            feats = self.backbone(x)
            feats -= feats.mean(0)
            self._store[key] = feats
        return self._store[key]


def make():
    torch.manual_seed(19)
    teacher = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 6))
    student = nn.Linear(5, 3)
    adapter = nn.Linear(6, 3, bias=False)
    return FeatureCache(teacher), student, adapter, torch.randn(7, 5)


def run():
    cache, student, adapter, x = make()
    target = cache.get("batch0", x)
    pred = student(x)
    aligned = adapter(target)
    loss = (pred - aligned).pow(2).mean()
    loss.backward()
    return {"student": student.weight.grad, "adapter": adapter.weight.grad}
