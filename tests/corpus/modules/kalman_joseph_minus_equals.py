"""The covariance is updated in place in the line whose own product has just saved it."""

# raises-backward
from types import SimpleNamespace as NS
import torch


def make():
    torch.manual_seed(4)
    F = torch.tensor([[1.0, 0.1], [0.0, 1.0]])
    H = torch.tensor([[1.0, 0.0]])
    log_q = torch.tensor([-2.0, -3.0], requires_grad=True)
    log_r = torch.tensor(-1.0, requires_grad=True)
    z = torch.cumsum(torch.randn(8) * 0.2, 0)
    return NS(F=F, H=H, log_q=log_q, log_r=log_r, z=z)


def predict(m, x, P):
    x = m.F @ x
    P = m.F @ P @ m.F.T + torch.diag(m.log_q.exp())
    return x, P


def correct(m, x, P, zt):
    innov = zt - m.H @ x
    S = m.H @ P @ m.H.T + m.log_r.exp()
    K = P @ m.H.T / S
    x = x + (K @ innov)
    P -= K @ m.H @ P  # harm saves
    nll = 0.5 * (innov.square() / S + S.log()).sum()
    return x, P, nll


def run():
    m = make()
    x, P = torch.zeros(2), torch.eye(2)
    total = 0.0
    for zt in m.z:
        x, P = predict(m, x, P)
        x, P, nll = correct(m, x, P, zt)
        total = total + nll
    total.backward()
    return {"log_q": m.log_q.grad, "log_r": m.log_r.grad}
