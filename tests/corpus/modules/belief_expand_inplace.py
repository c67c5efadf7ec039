"""The first observation is added in place to an expanded prior, many elements of which share one memory location."""

# raises-forward
import torch


def log_normalize(v):
    return v - v.logsumexp(-1, keepdim=True)


def filter_step(belief, log_T, log_e):
    pred = torch.logsumexp(belief.unsqueeze(-1) + log_T, dim=1)
    return log_normalize(pred + log_e)


def forward_filter(prior, T, E, obs):
    log_T, log_E = T.log_softmax(-1), E.log_softmax(-1)
    belief = log_normalize(prior).expand(obs.shape[0], -1)
    # incorporate the first observation
    belief.add_(log_E[:, obs[:, 0]].t())
    belief = log_normalize(belief)
    for t in range(1, obs.shape[1]):
        belief = filter_step(belief, log_T, log_E[:, obs[:, t]].t())
    return belief


def make():
    torch.manual_seed(0)
    S, O = 3, 4
    prior = torch.zeros(1, S, requires_grad=True)
    T = torch.randn(S, S, requires_grad=True)
    E = torch.randn(S, O, requires_grad=True)
    obs = torch.randint(0, O, (5, 6))
    return prior, T, E, obs


def run():
    prior, T, E, obs = make()
    b = forward_filter(prior, T, E, obs)
    (-b[:, 0].mean()).backward()
    return dict(T=T.grad, E=E.grad, prior=prior.grad)
