"""Target values are edited in place under no_grad before the loss uses them, and the target network after backward."""

# correct, oracle=clone
import copy
import random
import torch
import torch.nn as nn


class DQN(nn.Module):
    def __init__(self, obs, n_act):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 12), nn.ReLU(inplace=True), nn.Linear(12, n_act))

    def forward(self, s):
        return self.net(s)


def make():
    torch.manual_seed(52)
    q = DQN(4, 3)
    q_target = DQN(4, 3)
    n = 10
    batch = (torch.randn(n, 4), torch.randint(0, 3, (n, 1)), torch.randn(n), torch.randn(n, 4), torch.rand(n) < 0.3)
    return q, q_target, batch


GAMMA, TAU = 0.99, 0.05


def run():
    q, q_target, (s, a, r, s2, done) = make()
    opt = torch.optim.AdamW(q.parameters(), lr=1e-3, amsgrad=True)

    state_action = q(s).gather(1, a).squeeze(1)
    with torch.no_grad():
        nxt = q_target(s2).max(1).values
        nxt[done] = 0.0
        nxt.mul_(GAMMA).add_(r)

    loss = nn.functional.smooth_l1_loss(state_action, nxt)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(q.parameters(), 100)
    opt.step()

    sd, td = q.state_dict(), q_target.state_dict()
    for key in sd:
        td[key] = sd[key] * TAU + td[key] * (1 - TAU)
    q_target.load_state_dict(td)
    return {n: p.grad for n, p in q.named_parameters()}
