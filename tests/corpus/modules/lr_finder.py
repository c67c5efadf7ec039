"""LR finder keeps a copy of the state and puts it back"""

# deepcopy_state: correct
# shallow_state: correct
# load_between: raises-backward, tensor=weight
import copy

import torch
from torch import nn


class Finder:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.state = copy.deepcopy(model.state_dict())  # [deepcopy_state load_between]
        self.state = model.state_dict()  # [shallow_state]

    def sweep(self, batches):
        self.losses = []
        for x, y in batches:
            loss = (self.model(x) - y).abs().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.losses.append(loss.item())

    def reset(self):
        self.model.load_state_dict(self.state)  # [deepcopy_state shallow_state]
        self.model.load_state_dict(self.state)  # [load_between] harm


def make():
    torch.manual_seed(96)
    model = nn.Sequential(nn.Linear(2, 3), nn.Softsign(), nn.Linear(3, 1))
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    return model, opt, [(torch.randn(3, 2), torch.randn(3, 1)) for _ in range(2)]


def run():
    model, opt, batches = make()
    finder = Finder(model, opt)
    finder.sweep(batches)
    finder.reset()  # [deepcopy_state shallow_state]
    opt.zero_grad()
    x, y = batches[0]
    loss = (model(x) - y).pow(2).mean()
    finder.reset()  # [load_between]
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}


# truth
def truth():
    model, opt, batches = make()
    for x, y in batches:  # [shallow_state]
        opt.zero_grad()  # [shallow_state]
        (model(x) - y).abs().mean().backward()  # [shallow_state]
        opt.step()  # [shallow_state]
    x, y = batches[0]
    ns = [n for n, _ in model.named_parameters()]
    return dict(zip(ns, torch.autograd.grad((model(x) - y).pow(2).mean(), list(model.parameters()))))
