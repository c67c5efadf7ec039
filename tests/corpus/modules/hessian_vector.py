"""Conjugate gradient on Hessian-vector products; the direction vector is updated in place."""

# fresh: correct
# inplace: raises-backward, tensor=p
# detached_math: correct
import torch


def hvp(loss_fn, w, v):
    (g,) = torch.autograd.grad(loss_fn(w), w, create_graph=True)
    return torch.autograd.grad((g * v).sum(), w, retain_graph=True)[0]


def conjugate_gradient(loss_fn, w, b, iters):
    x, r = torch.zeros_like(b), b.clone()
    p = r.clone()
    rr = r @ r
    trail = 0.0
    (g,) = torch.autograd.grad(loss_fn(w), w, create_graph=True)
    for _ in range(iters):
        Hp = hvp(loss_fn, w, p)
        alpha = rr / (p @ Hp)
        trail = trail + (g * p).sum()  # [inplace] saves
        trail = trail + (g * p.clone()).sum()  # [detached_math]
        trail = trail + (g * p).sum()  # [fresh]
        x += alpha * p
        r -= alpha * Hp
        new = r @ r
        p.mul_(new / rr).add_(r)  # [inplace] harm
        p.mul_(new / rr).add_(r)  # [detached_math]
        p = r + (new / rr) * p  # [fresh]
        rr = new
    return x, trail


def loss_of(w):
    return (w**4).sum() / 4 + (w[0] * w[1]).pow(2) + w.pow(2).sum()


def make():
    return torch.tensor([0.5, -1.0, 0.8], requires_grad=True), torch.tensor([1.0, 0.5, -0.3])


def run():
    w, b = make()
    step, trail = conjugate_gradient(loss_of, w, b, 2)
    trail.backward()
    return {"w": w.grad, "step": step}


# truth
def truth():
    w, b = make()
    H = torch.autograd.functional.hessian(loss_of, w.detach())
    x, r, p, ps = torch.zeros(3), b, b, []
    for _ in range(2):
        alpha = (r @ r) / (p @ H @ p)
        ps.append(p)
        x, r2 = x + alpha * p, r - alpha * H @ p
        p, r = r2 + (r2 @ r2) / (r @ r) * p, r2
    return {"w": H @ sum(ps), "step": x}
