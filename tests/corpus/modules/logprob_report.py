"""Log-probabilities are turned into probabilities through .data although log_softmax has saved them as its output."""

# silently-wrong, oracle=clone
import torch
import torch.nn.functional as F


def make():
    torch.manual_seed(15)
    W1 = torch.randn(4, 9, requires_grad=True)
    W2 = torch.randn(9, 5, requires_grad=True)
    x = torch.randn(7, 4)
    labels = torch.randint(0, 5, (7,))
    return W1, W2, x, labels


def metrics(logp, labels, log):
    probs = logp.data.exp_()  # harm
    log.append(dict(acc=(probs.argmax(1) == labels).sum().item(), conf=probs.max().item()))


def run():
    W1, W2, x, labels = make()
    log = []
    hidden = torch.sigmoid(x @ W1)
    logp = F.log_softmax(hidden @ W2, dim=1)  # saves
    loss = F.nll_loss(logp, labels)  # saves
    metrics(logp, labels, log)
    loss.backward()
    return {"W1": W1.grad, "W2": W2.grad}
