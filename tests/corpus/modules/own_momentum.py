"""hand-written optimizer; two players alternate"""

# bug: silently-wrong, tensor=u
# fixed: correct
# counted: raises-backward, tensor=u
import torch


class Heavy:
    def __init__(self, params, lr=0.2, beta=0.9):
        self.params = list(params)
        self.lr, self.beta = lr, beta
        self.velocity = [torch.zeros_like(p) for p in self.params]

    def step(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(self.beta).add_(p.grad)
            p.data.add_(v, alpha=-self.lr)  # [bug] harm
            p.data.add_(v, alpha=-self.lr)  # [fixed]
            with torch.no_grad():  # [counted]
                p.sub_(self.lr * v)  # [counted] harm

    def zero(self):
        for p in self.params:
            p.grad = None


def payoff(u, v):
    return (u * v).sum() + 0.5 * (u * u).sum() - 0.25 * (v * v).sum()  # saves


def make():
    u = torch.tensor([1.0, -2.0], requires_grad=True)
    v = torch.tensor([0.5, 1.5], requires_grad=True)
    return u, v


def run():
    u, v = make()
    first, second = Heavy([u]), Heavy([v])
    game = payoff(u, v)
    first.zero()
    game.backward(inputs=[u], retain_graph=True)
    first.step()  # [bug counted]
    second.zero()
    (-game).backward(inputs=[v])
    first.step()  # [fixed]
    second.step()
    return {"u": u.grad, "v": v.grad}


# truth
def truth():
    u, v = make()
    return {"u": (v + u).detach(), "v": (-u + 0.5 * v).detach()}
