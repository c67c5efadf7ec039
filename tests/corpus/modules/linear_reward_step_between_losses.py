"""A step between two losses writes a linear model's weights, which a product with plain data did not save."""

# correct, oracle=clone
import torch

phi_expert = phi_agent = None


def features(traj):
    return torch.stack([traj, traj**2, traj.sin()], -1).mean(1)


def reward(theta, phi):
    return phi @ theta


def sgd(theta, lr):
    with torch.no_grad():
        theta -= lr * theta.grad


def make():
    global phi_expert, phi_agent
    torch.manual_seed(90)
    phi_expert = features(torch.randn(6, 4) + 1)
    phi_agent = features(torch.randn(6, 4))
    theta = torch.zeros(3, requires_grad=True)
    theta.data.normal_()
    return theta


def run():
    theta = make()
    r_e, r_a = reward(theta, phi_expert), reward(theta, phi_agent)
    loss_e = -r_e.mean()
    loss_a = torch.logsumexp(r_a, 0)
    loss_e.backward()
    sgd(theta, lr=0.5)
    loss_a.backward()
    return {"theta": theta.grad}
