"""Rows of the hidden state are zeroed under no_grad, so gradients still flow across a finished episode."""

# bug: silently-wrong, watch=blind
# fixed: correct
import torch
import torch.nn as nn


@torch.no_grad()  # [bug]
def reset_where(done, *tensors):
    """zero the rows of finished episodes"""
    for t in tensors:
        t[done] = 0.0  # [bug] harm
        t[done] = 0.0  # [fixed]


class AdditiveRNN(nn.Module):
    def __init__(self, obs, hid):
        super().__init__()
        self.enc = nn.Linear(obs, hid)
        self.rec = nn.Linear(hid, hid, bias=False)
        self.val = nn.Linear(hid, 1)

    def step(self, o, h):
        return self.enc(o) + self.rec(h)


def unroll(net, obs, dones):
    h = torch.zeros(obs.shape[1], net.rec.in_features)
    values = []
    for o, done in zip(obs, dones):
        h = net.step(o, h)
        values.append(net.val(h.tanh()))
        reset_where(done, h)
    return torch.stack(values)


def make():
    torch.manual_seed(14)
    net = AdditiveRNN(3, 4)
    obs = torch.randn(4, 5, 3)
    dones = torch.zeros(4, 5, dtype=torch.bool)
    dones[1, 0] = dones[1, 3] = dones[2, 2] = True
    return net, obs, dones, torch.randn(4, 5, 1)


def run():
    net, obs, dones, returns = make()
    loss = (unroll(net, obs, dones) - returns).pow(2).mean()
    loss.backward()
    return {"enc": net.enc.weight.grad, "rec": net.rec.weight.grad}


# truth
def truth():
    net, obs, dones, returns = make()
    h, values = torch.zeros(5, 4), []
    for o, done in zip(obs, dones):
        h = net.step(o, h)
        values.append(net.val(h.tanh()))
        h = torch.where(done[:, None], 0.0, h)
    loss = (torch.stack(values) - returns).pow(2).mean()
    return dict(zip(("enc", "rec"), torch.autograd.grad(loss, [net.enc.weight, net.rec.weight])))
