"""NumPy sorts in place what numpy() and reshape share with the outputs that sigmoid has saved."""

# silently-wrong, oracle=clone
import torch
import torch.nn as nn


def quantiles(arr, qs=(0.1, 0.5, 0.9)):
    flat = arr.reshape(-1)
    flat.sort()  # harm
    return [float(flat[int(q * (flat.size - 1))]) for q in qs]


class ActivationLogger:
    def __init__(self, net):
        self.acts = {}
        self.rows = []
        for name, m in net.named_modules():
            if isinstance(m, nn.Sigmoid):
                m.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def hook(module, args, out):
            self.acts[name] = out.detach()

        return hook

    def flush(self, step):
        for name, act in self.acts.items():
            self.rows.append((step, name, *quantiles(act.cpu().numpy())))
        self.acts.clear()


def make():
    torch.manual_seed(23)
    net = nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 5), nn.Sigmoid(), nn.Linear(5, 1))
    return net, ActivationLogger(net), torch.randn(4, 3), torch.randn(4, 1)


def run():
    net, logger, x, y = make()
    for step in range(1):
        loss = nn.functional.mse_loss(net(x), y)  # saves
        logger.flush(step)
        loss.backward()
    return {n: p.grad for n, p in net.named_parameters()}
