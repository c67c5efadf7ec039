"""New weights replace a parameter's storage with set_ while two forwards that saved it still await backward."""

# raises-backward
import torch


class Worker:
    def __init__(self, shape):
        self.w = torch.randn(*shape, requires_grad=True)
        self.pending = []

    def forward(self, x):
        code = (x @ self.w).tanh()
        self.pending.append((code @ self.w.t() - x).pow(2).mean())  # saves

    def pull(self, server):
        fresh = server.latest()
        with torch.no_grad():
            self.w.set_(fresh)  # harm

    def push(self):
        total = torch.stack(self.pending).sum()
        total.backward()
        return self.w.grad


class Server:
    def __init__(self, shape):
        self.version, self.w = 0, torch.zeros(*shape)

    def latest(self):
        self.version += 1
        return self.w + self.version


def make():
    torch.manual_seed(54)
    return Worker((3, 2)), Server((3, 2)), [torch.randn(4, 3) for _ in range(2)]


def run():
    worker, server, batches = make()
    for b in batches:
        worker.forward(b)
        worker.pull(server)
    return {"w": worker.push()}
