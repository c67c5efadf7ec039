"""The target network moves before backward, but its output was computed under no_grad and saved nothing."""

# correct, oracle=clone
import torch
import torch.nn as nn
import torch.nn.functional as F
# lightning-style DQN. Is it a problem that the polyak update comes before backward()?


class DQNModule(nn.Module):
    def __init__(self, obs=3, n_actions=2, gamma=0.97, tau=0.25):
        super().__init__()
        build = lambda: nn.Sequential(nn.Linear(obs, 5), nn.ReLU(inplace=True), nn.Linear(5, n_actions))
        self.q, self.target = build(), build()
        self.gamma, self.tau = gamma, tau

    @torch.no_grad()
    def td_target(self, r, s2, done):
        best = self.target(s2).max(1).values
        best[done] = 0.0
        return best.mul_(self.gamma).add_(r)

    def on_before_backward(self):
        for t, o in zip(self.target.parameters(), self.q.parameters()):
            t.data.mul_(1 - self.tau).add_(o.data, alpha=self.tau)

    def training_step(self, batch):
        s, a, r, s2, done = batch
        q_sa = self.q(s).gather(1, a[:, None]).squeeze(1)
        return F.smooth_l1_loss(q_sa, self.td_target(r, s2, done))


def make():
    torch.manual_seed(42)
    m = DQNModule()
    n = 6
    batch = (torch.randn(n, 3), torch.randint(0, 2, (n,)), torch.randn(n), torch.randn(n, 3), torch.rand(n) < 0.3)
    return m, batch


def run():
    m, batch = make()
    loss = m.training_step(batch)
    m.on_before_backward()
    loss.backward()
    return {k: p.grad for k, p in m.q.named_parameters()}
