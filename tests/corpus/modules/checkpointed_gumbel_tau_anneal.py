"""A callback anneals the temperature of a checkpointed codebook before backward recomputes the block with it."""

# silently-wrong, watch=blind
from __future__ import annotations
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Codebook(nn.Module):
    tau: torch.Tensor

    def __init__(self, d: int, k: int) -> None:
        super().__init__()
        self.logits = nn.Linear(d, k)
        self.codes = nn.Parameter(torch.randn(k, d))
        self.register_buffer("tau", torch.tensor(1.0))

    def _quantize(self, x: torch.Tensor) -> torch.Tensor:
        return (self.logits(x) / self.tau).softmax(-1) @ self.codes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self._quantize, x, use_reentrant=False)

    def anneal(self, rate: float = 0.5) -> None:
        self.tau.mul_(rate)  # harm


class Trainer:
    def __init__(self, module: Codebook) -> None:
        self.module = module
        self.callbacks = [lambda tr: tr.module.anneal()]

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        return (self.module(x) - x).square().mean()

    def fit_batch(self, x: torch.Tensor) -> float:
        loss = self.training_step(x)
        for cb in self.callbacks:
            cb(self)
        loss.backward()
        return loss.item()


def make():
    torch.manual_seed(15)
    return Trainer(Codebook(4, 6)), torch.randn(5, 4)


def run():
    trainer, x = make()
    print(f"{trainer.fit_batch(x) = :.4f}")
    return {"codes": trainer.module.codes.grad, "logits": trainer.module.logits.weight.grad}


# truth
def truth():
    trainer, x = make()
    codebook = trainer.module
    loss = (codebook._quantize(x) - x).square().mean()
    return dict(zip(("codes", "logits"), torch.autograd.grad(loss, [codebook.codes, codebook.logits.weight])))
