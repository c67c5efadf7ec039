"""A Kalman filter symmetrises its covariance in place after the gain was computed from it."""

# bug: raises-backward, tensor=covariance
# fixed: correct
# first: correct
import torch


class Filter:
    def __init__(self, transition, noise):
        self.transition, self.noise = transition, noise

    def predict(self, mean, covariance):
        mean = self.transition @ mean
        covariance = self.transition @ covariance @ self.transition.t()
        covariance.diagonal().add_(self.noise.exp())
        return mean, covariance

    def update(self, mean, covariance, observed):
        covariance += 1e-3 * torch.eye(2)  # [first]
        innovation = covariance + torch.eye(2)
        gain = covariance @ torch.linalg.inv(innovation)  # saves
        covariance += 1e-3 * torch.eye(2)  # [bug] harm
        covariance = covariance + 1e-3 * torch.eye(2)  # [fixed]
        mean = mean + gain @ (observed - mean)
        covariance = covariance - gain @ covariance
        return mean, covariance


def make():
    transition = torch.tensor([[1.0, 0.1], [0.0, 0.9]], requires_grad=True)
    noise = torch.tensor([-1.0, -2.0], requires_grad=True)
    observations = torch.tensor([[0.5, 0.1], [0.7, 0.2]])
    return Filter(transition, noise), observations


def run():
    kalman, observations = make()
    mean, covariance = torch.zeros(2), torch.eye(2)
    loss = 0.0
    for observed in observations:
        mean, covariance = kalman.predict(mean, covariance)
        loss = loss + (observed - mean).pow(2).sum()
        mean, covariance = kalman.update(mean, covariance, observed)
    loss = loss + mean.pow(2).sum()
    loss.backward()
    return {"transition": kalman.transition.grad, "noise": kalman.noise.grad}


# truth
def truth():
    kalman, observations = make()
    f, q = kalman.transition, kalman.noise
    m, p, loss = torch.zeros(2), torch.eye(2), 0.0
    for observed in observations:
        m, p = f @ m, f @ p @ f.t() + torch.diag(q.exp())
        loss = loss + (observed - m).pow(2).sum()
        p0 = p + 1e-3 * torch.eye(2)
        p = p0  # [first]
        gain = p @ torch.linalg.inv(p + torch.eye(2))
        m, p = m + gain @ (observed - m), p0 - gain @ p0
    a, b = torch.autograd.grad(loss + m.pow(2).sum(), [f, q])
    return {"transition": a, "noise": b}
