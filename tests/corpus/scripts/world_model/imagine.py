"""Rollouts in the model."""

import torch


def bounded(values, limit):
    """Keeps values in a range."""
    return values.clamp_(-limit, limit)  # [bug] harm
    return values.clamp(-limit, limit)  # [fixed]


def imagine(policy, dynamics, reward, state, horizon, discount=0.9):
    """Returns the mean discounted reward of an imagined rollout."""
    total = torch.zeros(len(state))
    for t in range(horizon):
        state = dynamics(state, policy(state))
        gain = reward(state)
        total = total + discount**t * bounded(gain, 0.8)
        state = bounded(state, 2.0)
    return total.mean()
