"""Logits are clamped through .data for a report, but cross entropy has saved its own log-softmax, not them."""

# correct, oracle=clone
import torch
import torch.nn.functional as F


def make():
    torch.manual_seed(15)
    W1 = torch.randn(4, 9, requires_grad=True)
    W2 = torch.randn(9, 5, requires_grad=True)
    x = torch.randn(7, 4)
    labels = torch.randint(0, 5, (7,))
    return W1, W2, x, labels


def metrics(logits, labels, log):
    logits.data.clamp_(-1.0, 1.0)
    log.append(dict(acc=(logits.argmax(1) == labels).sum().item(), top=logits.max().item()))


def run():
    W1, W2, x, labels = make()
    log = []
    hidden = torch.sigmoid(x @ W1)
    logits = hidden @ W2
    loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
    metrics(logits, labels, log)
    loss.backward()
    return {"W1": W1.grad, "W2": W2.grad}
