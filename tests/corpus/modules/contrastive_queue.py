"""MoCo: the queue of negative keys is overwritten while the logits that used it wait for backward."""

# bug: raises-backward, tensor=queue
# fixed: correct
# quiet: silently-wrong, tensor=queue
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize


class MoCo(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width).requires_grad_(False)
        self.register_buffer("queue", normalize(torch.randn(size, width), dim=1))
        self.position = 0

    @torch.no_grad()
    def enqueue(self, keys):
        end = self.position + len(keys)
        self.queue[self.position : end] = keys  # [bug] harm
        self.queue.data[self.position : end] = keys  # [quiet] harm
        self.queue[self.position : end] = keys  # [fixed]
        self.position = end % len(self.queue)

    def forward(self, x, y):
        q = normalize(self.query(x), dim=1)
        with torch.no_grad():
            k = normalize(self.key(y), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.t()  # [bug quiet] saves
        negative = q @ self.queue.clone().t()  # [fixed]
        self.enqueue(k)
        return torch.cat([positive, negative], dim=1) / 0.2


def make():
    torch.manual_seed(211)
    return MoCo(3, 4), torch.randn(2, 3), torch.randn(2, 3)


def run():
    model, x, y = make()
    logits = model(x, y)
    loss = cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
    loss.backward()
    return {"query": model.query.weight.grad}


# truth
def truth():
    model, x, y = make()
    q = normalize(model.query(x), dim=1)
    k = normalize(model.key(y), dim=1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ model.queue.t()], 1) * 5
    loss = (logits.logsumexp(1) - logits[:, 0]).mean()
    return {"query": torch.autograd.grad(loss, model.query.weight)[0]}
