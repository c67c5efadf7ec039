"""Faults of the graph from public reports, each with its repaired version. `harm` marks the line that must be named."""

# %% layers_in_a_list
# bug: correct
# fixed: correct
"""The layers of a list are not parameters of the module: https://github.com/pytorch/pytorch/issues/715"""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.hidden = []  # [bug]
        self.hidden = nn.ModuleList()  # [fixed]
        for _ in range(depth):
            self.hidden.append(nn.Linear(width, width))  # harm
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.last(x)


torch.manual_seed(0)
model = Classifier(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(3, (6,))).backward()
    optimizer.step()

# %% gradient_checkpoints_of_a_tower
# bug: correct
# fixed: correct
"""A reentrant checkpoint whose input needs no gradient: https://github.com/mlfoundations/open_clip/issues/573"""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Tower(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(2))
        self.out, self.reentrant = nn.Linear(4, 2), reentrant

    def forward(self, x):
        x = checkpoint(self.blocks[0], x, use_reentrant=self.reentrant)  # harm
        return self.out(self.blocks[1](x))


torch.manual_seed(0)
tower = Tower(reentrant=True)  # [bug]
tower = Tower(reentrant=False)  # [fixed]
optimizer = torch.optim.AdamW(tower.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    tower(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()

# %% dropout_after_the_first_test
# bug: correct
# fixed: correct
"""`train()` is not called again after a test: https://github.com/shubhamagarwal92/mmd/issues/14"""
import torch
from torch import nn


def evaluate(model, batch):
    model.eval()  # harm
    with torch.no_grad():
        return model(batch).mean().item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.train()
for epoch in range(3):
    model.train()  # [fixed]
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
    evaluate(model, torch.randn(4, 3))

# %% one_autocast_around_the_loop
# bug: correct
# fixed: correct
"""The cached casts of the weights are stale after a step: https://github.com/X-GenGroup/Flow-Factory/pull/186"""
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.AdamW(policy.parameters(), lr=0.01)
with torch.autocast("cpu", dtype=torch.bfloat16):  # [bug] harm
    for _ in range(3):  # [bug]
        loss = policy(torch.randn(5, 3)).float().square().mean()  # [bug]
        optimizer.zero_grad()  # [bug]
        loss.backward()  # [bug]
        optimizer.step()  # [bug]
for _ in range(3):  # [fixed]
    with torch.autocast("cpu", dtype=torch.bfloat16):  # [fixed]
        loss = policy(torch.randn(5, 3)).float().square().mean()  # [fixed]
    optimizer.zero_grad()  # [fixed]
    loss.backward()  # [fixed]
    optimizer.step()  # [fixed]

# %% inner_update_through_data
# bug: correct
# fixed: correct
"""The inner update of MAML through `.data` on a copy: https://github.com/KanishJebaMathewM/Truxify/issues/13118"""
import copy

import torch
from torch import nn

torch.manual_seed(0)
meta_model = nn.Linear(3, 1)
meta_optimizer = torch.optim.Adam(meta_model.parameters(), lr=0.01)


def inner_update(model, x, y):
    adapted = copy.deepcopy(model)  # [bug] harm
    loss = nn.functional.mse_loss(adapted(x), y)  # [bug]
    slopes = torch.autograd.grad(loss, adapted.parameters(), create_graph=True)  # [bug]
    for parameter, slope in zip(adapted.parameters(), slopes):  # [bug]
        parameter.data -= 0.1 * slope  # [bug]
    return adapted  # [bug]
    own = dict(model.named_parameters())  # [fixed]
    loss = nn.functional.mse_loss(model(x), y)  # [fixed]
    slopes = torch.autograd.grad(loss, own.values(), create_graph=True)  # [fixed]
    fast = {name: p - 0.1 * g for (name, p), g in zip(own.items(), slopes)}  # [fixed]
    return lambda x: torch.func.functional_call(model, fast, (x,))  # [fixed]


for _ in range(3):
    adapted = inner_update(meta_model, torch.randn(5, 3), torch.randn(5, 1))
    meta_loss = nn.functional.mse_loss(adapted(torch.randn(5, 3)), torch.randn(5, 1))
    meta_optimizer.zero_grad()
    meta_loss.backward()
    meta_optimizer.step()

# %% derivatives_of_a_linear_model
# bug: raises-backward
# fixed: correct
"""Higher derivatives one after the other: https://discuss.pytorch.org/t/177249 (PINN solvers)"""
import torch
from torch import nn


def derivative(y, xs):
    for x in xs:
        y = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]  # [bug] harm
        y = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True, materialize_grads=True)[0]  # [fixed]
    return y


torch.manual_seed(0)
model = nn.Linear(2, 1)
t, x = torch.rand(5, 1, requires_grad=True), torch.rand(5, 1, requires_grad=True)
u = model(torch.cat([t, x], 1)) + t * x
(derivative(u, [t]) - derivative(u, [x, x])).square().mean().backward()

# %% mean_teacher_of_a_used_model
# bug: raises-forward
# fixed: correct
"""deepcopy of a model that keeps its last output: https://github.com/lucidrains/byol-pytorch/issues/95"""
import copy

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.hidden = nn.Linear(4, 3), None

    def forward(self, x):
        self.hidden = torch.relu(self.net(x))  # [bug] harm
        self.hidden = torch.relu(self.net(x)).detach()  # [fixed]
        return torch.relu(self.net(x)).sum()


torch.manual_seed(0)
online = Encoder()
online(torch.randn(2, 4)).backward()
target = copy.deepcopy(online)
(online(torch.randn(2, 4)) - target(torch.randn(2, 4)).detach()).backward()

# %% backbone_in_inference_mode
# bug: raises-forward
# fixed: correct
"""Features of a frozen backbone are inference tensors: https://github.com/facebookresearch/dinov2/issues/399"""
import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)


def features(images):
    with torch.inference_mode():  # [bug]
        return backbone(images)  # [bug] harm
    with torch.no_grad():  # [fixed]
        return backbone(images)  # [fixed]


for _ in range(2):
    optimizer.zero_grad()
    head(features(torch.randn(5, 4))).square().mean().backward()
    optimizer.step()

# %% leaf_before_the_copy
# bug: raises-forward
# fixed: correct
"""`requires_grad=True` before a computation: https://discuss.pytorch.org/t/28461 (how to define a leaf)"""
import torch

torch.manual_seed(0)
style = torch.randn(3, requires_grad=True) * 0.1  # [bug]
style = (torch.randn(3) * 0.1).requires_grad_()  # [fixed]
for _ in range(2):
    (style - 1).square().sum().backward()
    with torch.no_grad():
        style -= 0.1 * style.grad  # harm
    style.grad = None

# %% gradients_off_for_validation
# bug: raises-backward
# fixed: correct
"""Gradients are switched off for validation and not on again: https://runebook.dev/ru/docs/pytorch/generated/torch.autograd.grad_mode.set_grad_enabled"""
import torch
from torch import nn


def run_epoch(model, optimizer, training):
    if not training:
        torch.set_grad_enabled(False)  # harm
    loss = model(torch.randn(4, 3)).square().mean()
    if training:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_grad_enabled(True)  # [fixed]
    return loss.item()


torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    run_epoch(model, optimizer, True)
    run_epoch(model, optimizer, False)

# %% gradients_that_pile_up
# bug: correct
# fixed: correct
"""`zero_grad()` is missing: https://runebook.dev/en/docs/pytorch/generated/torch.nn.module/torch.nn.Module.zero_grad"""
import torch
from torch import nn

torch.manual_seed(0)
model, criterion = nn.Linear(3, 2), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model.zero_grad()  # [fixed]
    loss = criterion(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    loss.backward()  # harm
    optimizer.step()

# %% cleared_between_backward_and_step
# bug: correct
# fixed: correct
"""`zero_grad()` anywhere but between backward and step: https://velog.io/@rhss10/기본-optimizer.zerograd는-어디에-넣어주어야-할까"""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(4, 3)).square().mean()
    loss.backward()
    optimizer.zero_grad()  # [bug]
    optimizer.step()  # [bug] harm
    optimizer.step()  # [fixed]
    optimizer.zero_grad()  # [fixed]

# %% accuracy_as_a_loss
# bug: correct
# fixed: correct
"""argmax has no gradient, and `requires_grad_()` hides it: https://www.codegenes.net/blog/pytorch-argmax-gradient"""
import torch
from torch import nn

torch.manual_seed(0)
model, labels = nn.Linear(3, 2), torch.tensor([0.0, 1.0, 1.0, 0.0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    predicted = model(torch.randn(4, 3)).argmax(1).float()  # [bug] harm
    predicted = model(torch.randn(4, 3)).softmax(1)[:, 1]  # [fixed]
    loss = (predicted - labels).square().mean()
    loss.requires_grad_()  # [bug]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% factor_of_zero
# bug: correct
# fixed: correct
"""The factor `epoch // 30` is 0 for 30 epochs: https://pytorch.org/docs/2.5/generated/torch.optim.lr_scheduler.LambdaLR.html"""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: epoch // 30)  # [bug]
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 0.95**epoch)  # [fixed]
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 3)).square().mean().backward()
    optimizer.step()  # harm
    scheduler.step()

# %% weights_restored_after_the_inner_loop
# bug: correct
# fixed: correct
"""The optimizer holds the model, the loss another copy of it: https://github.com/dragen1860/MAML-Pytorch/issues/9"""
import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
meta_optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(2):
    learner = copy.deepcopy(net)  # [bug] harm
    learner = net  # [fixed]
    loss = nn.functional.cross_entropy(learner(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    meta_optimizer.zero_grad()
    loss.backward()
    meta_optimizer.step()

# %% parts_of_which_some_are_not_used
# bug: correct
# fixed: correct
"""The parameters that the optimizer holds stay as they are: https://github.com/pytorch/pytorch/issues/40983"""
import torch
from torch import nn

torch.manual_seed(0)
pool, readout = nn.Linear(4, 1), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*pool.parameters(), *readout.parameters()], lr=0.01)
for _ in range(2):
    x = torch.randn(6, 4)
    score = pool(x).squeeze(1)  # [bug] harm
    kept = x[score.topk(3).indices]  # [bug] harm
    score = pool(x).squeeze(1)  # [fixed]
    best = score.topk(3)  # [fixed]
    kept = x[best.indices] * best.values.sigmoid().unsqueeze(1)  # [fixed]
    loss = nn.functional.cross_entropy(readout(kept), torch.tensor([0, 1, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
