"""Solver that catches a failed factorisation, adds jitter in place and tries again."""

# fresh: correct
# inplace: raises-backward, tensor=K
# data: correct
import torch
from torch import nn


def safe_cholesky(K, tries=4):
    jitter = 1e-4
    for _ in range(tries):
        try:
            if jitter < 1e-2:
                raise RuntimeError("not positive definite")
            return torch.linalg.cholesky(K)
        except RuntimeError:
            jitter *= 10
            K = K + jitter * torch.eye(len(K))  # [fresh]
            K.diagonal().add_(jitter)  # [inplace] harm
            K.data.diagonal().add_(jitter)  # [data]
    raise RuntimeError("gave up")


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.2))
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def kernel(self, x):
        d = (x[:, None] - x[None]) / self.log_scale.exp()
        K = torch.exp(-0.5 * d.pow(2))  # [inplace data] saves
        K = torch.exp(-0.5 * d.pow(2))  # [fresh]
        return K

    def nll(self, x, y):
        L = safe_cholesky(self.kernel(x))
        alpha = torch.cholesky_solve(y[:, None], L)
        return 0.5 * (y @ alpha).sum() + L.diagonal().log().sum() + self.log_noise.exp() * y.pow(2).mean()


def make():
    torch.manual_seed(82)
    return GP(), torch.tensor([0.0, 0.7, 1.5]), torch.tensor([0.3, -0.2, 0.5])


def run():
    gp, x, y = make()
    loss = gp.nll(x, y)
    loss.backward()
    return {"scale": gp.log_scale.grad, "noise": gp.log_noise.grad}


# truth
def truth():
    gp, x, y = make()
    K = torch.exp(-0.5 * ((x[:, None] - x[None]) / gp.log_scale.exp()) ** 2)
    K = K + 0.011 * torch.eye(3)
    nll = 0.5 * y @ torch.linalg.solve(K, y) + 0.5 * torch.logdet(K) + gp.log_noise.exp() * y.pow(2).mean()
    a, b = torch.autograd.grad(nll, [gp.log_scale, gp.log_noise])
    return {"scale": a, "noise": b}
