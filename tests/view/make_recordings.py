"""Records the programs below and writes recordings/*.json, which the tests draw without torch. Run it as a script."""

from pathlib import Path

from autograder import tape
from autograder.tape.recording.schema import to_json

FOLDER = Path(__file__).parent / "recordings"

MATMULS = """\
import torch

x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)

d = x @ w1
f = d * w2
{write}
f.sum().backward()
"""

PROGRAMS = {
    "raises_backward": MATMULS.format(write="d[:] = 1"),
    "silently_wrong": MATMULS.format(write="d.data[:] = 1"),
    "detached": MATMULS.format(write="d.detach()[:] = 1"),
    "correct": """\
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
s = out.detach()
out.sum().backward()
""",
    "raises_forward": """\
import torch

w = torch.ones(3, requires_grad=True)
w.normal_()
""",
    "views": """\
import torch

p = torch.ones(2, 3, requires_grad=True)
D = torch.ones(3, 3, requires_grad=True)
u = p.clone()
i = u[0]
a = D @ i
u[0] = a
a.sum().backward()
""",
    "loop": """\
import torch

torch.manual_seed(0)
w = torch.randn(3, 3, requires_grad=True)
x = torch.randn(12, 3)
h = torch.zeros(3)
out = torch.zeros(12, 3)
for t in range(12):
    h = torch.tanh(x[t] @ w + h)
    out[t] = h
loss = out.sum()
loss.backward()
""",
    "training": """\
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for epoch in range(2):
    optimizer.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
""",
    "modules": """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(inplace=True), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 2)
batch = x
x.mul_(2)
twice = x * 2
loss = model(twice).square().mean()
loss.backward()
optimizer.step()
""",
    "odd_values": """\
import torch

nan = torch.tensor([float("nan"), float("inf"), -float("inf")], requires_grad=True)
empty = torch.zeros(0, 3, requires_grad=True)
z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
mask = torch.tensor([True, False])
half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
big = torch.ones(1_000_000, requires_grad=True)
größe = torch.ones(2, requires_grad=True)
重み = größe * 2
y = (nan * 2).sum() + empty.exp().sum() + z.abs().sum() + (half * half).sum().float() + (big * big).sum() + 重み[mask].sum()
y.backward()
""",
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, source in PROGRAMS.items():
        (FOLDER / f"{name}.json").write_text(to_json(tape.record(source)), encoding="utf-8")
