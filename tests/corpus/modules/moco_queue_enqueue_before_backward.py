"""New keys are written into the queue after the product with the negatives has saved it and before backward."""

# raises-backward
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoCo(nn.Module):
    def __init__(self, dim=4, K=12, m=0.9, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = nn.Linear(6, dim)
        self.encoder_k = nn.Linear(6, dim)
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.data.copy_(pq.data)
            pk.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        bs, ptr = keys.shape[0], int(self.queue_ptr)
        self.queue[:, ptr : ptr + bs] = keys.T  # harm
        self.queue_ptr[0] = (ptr + bs) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
                pk.data = pk.data * self.m + pq.data * (1.0 - self.m)
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = q @ self.queue  # saves
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long)
        self._dequeue_and_enqueue(k)
        return logits, labels


def make():
    torch.manual_seed(31)
    base = torch.randn(4, 6)
    return MoCo(), base + 0.1 * torch.randn(4, 6), base


def run():
    model, a, b = make()
    loss = F.cross_entropy(*model(a, b))
    loss.backward()
    return {"q.weight": model.encoder_q.weight.grad}
