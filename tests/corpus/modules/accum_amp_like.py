"""Gradients are unscaled, cloned, clipped and zeroed in place, only between calls of backward."""

# correct, oracle=clone
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class MiniScaler:
    scale: float = 1024.0
    history: list = field(default_factory=list)

    def unscale_(self, params):
        grads = [p.grad for p in params if p.grad is not None]
        torch._foreach_div_(grads, self.scale)
        self.history.append(self.scale)


def make():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 12), nn.SiLU(inplace=False), nn.Dropout(0.1), nn.Linear(12, 1))
    xs, ys = torch.randn(8, 5, 6), torch.randn(8, 5, 1)
    return model, list(zip(xs, ys))


def run():
    model, batches = make()
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=3e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=10)
    scaler, accumulate = MiniScaler(), 4
    window_loss = 0.0
    for i, (x, y) in enumerate(batches):
        loss = nn.functional.smooth_l1_loss(model(x), y) / accumulate
        (loss * scaler.scale).backward()
        window_loss += loss.detach()
        if (i + 1) % accumulate:
            continue
        scaler.unscale_(params)
        raw = [p.grad.clone() for p in params]
        nn.utils.clip_grad_norm_(params, max_norm=0.01)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=False)
        last, window_loss = window_loss, 0.0
    return {"w0": raw[0], "b0": raw[1], "w1": raw[2]}
