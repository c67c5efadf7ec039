"""Log-probabilities are normalised in place although logsumexp has saved them as its input."""

# raises-backward
import torch
import torch.nn.functional as F


def sinkhorn(log_p, iters=5):
    for _ in range(iters):
        log_p -= torch.logsumexp(log_p, dim=1, keepdim=True)  # harm saves
        log_p -= torch.logsumexp(log_p, dim=0, keepdim=True)  # harm saves
    return log_p


def match(desc_a, desc_b, bin_score):
    a, b = F.normalize(desc_a, dim=-1), F.normalize(desc_b, dim=-1)
    scores = a @ b.T / 0.3
    m, n = scores.shape
    couplings = torch.cat(
        [
            torch.cat([scores, bin_score.expand(m, 1)], 1),
            bin_score.expand(1, n + 1),
        ],
        0,
    )
    return sinkhorn(couplings)


def make():
    torch.manual_seed(9)
    W = torch.randn(5, 3, requires_grad=True)
    bin_score = torch.tensor(0.4, requires_grad=True)
    return W, bin_score, torch.randn(4, 5), torch.randn(4, 5)


def run():
    W, bin_score, xa, xb = make()
    Z = match(xa @ W, xb @ W, bin_score)
    loss = -Z.diagonal()[:-1].mean()
    loss.backward()
    return {"W": W.grad, "bin": bin_score.grad}
