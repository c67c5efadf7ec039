"""A forward hook drops units by writing into the output that the layer's tanh has saved."""

# bug: raises-backward
# fixed: correct
import torch
import torch.nn.functional as F
from torch import nn


class UnitDropout:
    """Drops the same units for a whole epoch, through hooks."""

    def __init__(self, rate, seed):
        self.rate = rate
        self.generator = torch.Generator().manual_seed(seed)
        self.masks, self.handles = {}, []

    def attach(self, model, kind):
        for name, module in model.named_modules():
            if isinstance(module, kind):
                self.handles.append(module.register_forward_hook(self.hook(name)))

    def hook(self, name):
        def drop(module, inputs, output):
            if not module.training:
                return None
            if name not in self.masks:
                keep = torch.rand(output.size(-1), generator=self.generator) >= self.rate
                self.masks[name] = keep.float() / (1 - self.rate)
            output.mul_(self.masks[name])  # [bug] harm
            output = output.mul(self.masks[name])  # [fixed]
            return output

        return drop

    def new_epoch(self):
        self.masks.clear()

    def detach(self):
        for handle in self.handles:
            handle.remove()


def make_model():
    return nn.Sequential(
        nn.Linear(5, 12),
        nn.Tanh(),
        nn.Linear(12, 8),
        nn.Tanh(),
        nn.Linear(8, 1),
    )


def make_data(count):
    x = torch.randn(count, 5)
    return x, (x[:, :2].prod(1, keepdim=True) > 0).float()


def main():
    torch.manual_seed(10)
    model, dropout = make_model(), UnitDropout(0.25, 10)
    dropout.attach(model, nn.Tanh)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    x, y = make_data(16)
    for epoch in range(2):
        dropout.new_epoch()
        for rows, goals in zip(x.split(8), y.split(8)):
            logits = model(rows)  # saves
            loss = F.binary_cross_entropy_with_logits(logits, goals)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.5f}")
    dropout.detach()


main()
