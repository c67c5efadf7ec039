"""The kernel is the saved output of exp, and writing the jitter onto its diagonal view changes it."""

# raises-backward
import torch

JITTER = 1e-2


class RBFKernel:
    def __init__(self, lengthscale, outputscale):
        self.raw_l = torch.tensor(lengthscale).log().requires_grad_()
        self.raw_s = torch.tensor(outputscale).log().requires_grad_()

    def __call__(self, a, b):
        d2 = (a[:, None] - b[None, :]).pow(2).sum(-1)
        return torch.exp(self.raw_s - 0.5 * d2 / self.raw_l.exp() ** 2)  # saves


def neg_mll(K, y):
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(y[:, None], L)[:, 0]
    return 0.5 * y @ alpha + L.diagonal().log().sum()


def make():
    torch.manual_seed(2)
    X = torch.linspace(0, 1, 6)[:, None]
    y = torch.sin(6 * X[:, 0]) + 0.1 * torch.randn(6)
    return RBFKernel(0.3, 1.0), X, y


def run():
    kernel, X, y = make()
    K = kernel(X, X)
    K.diagonal().add_(JITTER)  # harm
    nll = neg_mll(K, y)
    nll.backward()
    return {"lengthscale": kernel.raw_l.grad, "outputscale": kernel.raw_s.grad}
