"""Averaging and its BatchNorm update write the averaged copy, not the model whose graph is pending."""

# correct, oracle=clone
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn


def make():
    torch.manual_seed(30)
    model = nn.Sequential(nn.Linear(3, 10), nn.BatchNorm1d(10), nn.ReLU(inplace=True), nn.Linear(10, 1))
    data = [(torch.randn(6, 3), torch.randn(6, 1)) for _ in range(3)]
    return model, data


def run():
    model, data = make()
    swa_model = AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    swa_sched = SWALR(opt, swa_lr=0.01, anneal_epochs=2)

    def one_epoch():
        for x, y in data:
            opt.zero_grad()
            loss = (model(x) - y).abs().mean()
            loss.backward()
            opt.step()

    for epoch in range(2):
        one_epoch()
        swa_model.update_parameters(model)
        swa_sched.step()

    # one extra loss; the averaged model is refreshed before we call backward
    opt.zero_grad()
    x, y = data[0]
    final = (model(x) - y).pow(2).mean()
    swa_model.update_parameters(model)
    update_bn([b[0] for b in data], swa_model)
    final.backward()
    return {"in": model[0].weight.grad, "gamma": model[1].weight.grad, "out": model[3].weight.grad}
