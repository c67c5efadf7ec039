"""The fast weights were saved by the first matmuls and are decayed in place by the foreach call before backward."""

# raises-backward
import torch


def make():
    torch.manual_seed(33)
    slow = [
        torch.randn(4, 6, requires_grad=True),
        torch.randn(6, 6, requires_grad=True),
        torch.randn(6, 2, requires_grad=True),
    ]
    x = torch.randn(5, 4)
    return slow, x


def forward(ws, x):
    for w in ws[:-1]:
        x = torch.tanh(x @ w)  # saves
    return x @ ws[-1]  # saves


def run():
    slow, x = make()
    steps, decay = 3, 0.9
    fast = [w.clone() for w in slow]
    outputs = []
    for step in range(steps):
        outputs.append(forward(fast, x))
        torch._foreach_mul_(fast, decay)  # harm
    loss = sum((o**2).mean() for o in outputs)
    loss.backward()
    return {f"slow{i}": w.grad for i, w in enumerate(slow)}
