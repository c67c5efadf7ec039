"""Distillation with hooks that record features into a buffer, under no_grad and after a copy; right."""

# correct
import torch
import torch.nn.functional as F
from torch import nn


def mlp(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))


class Features:
    """Keeps what a module gave, and a running mean of its size."""

    def __init__(self, module, width):
        self.output = None
        self.size = torch.zeros(width)
        module.register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        self.output = output
        with torch.no_grad():
            copy = output.detach().clone()
            copy.abs_()
            self.size.mul_(0.9).add_(copy.mean(0), alpha=0.1)


class Distillation(nn.Module):
    def __init__(self, teacher, student, temperature=2.0):
        super().__init__()
        self.teacher, self.student = teacher.eval().requires_grad_(False), student
        self.of_teacher, self.of_student = Features(teacher[2], 16), Features(student[2], 8)
        self.match = nn.Linear(8, 16)
        self.temperature = temperature

    def forward(self, x, labels):
        with torch.no_grad():
            soft = self.teacher(x)
            soft /= self.temperature
            soft = F.softmax(soft, dim=1)
        logits = self.student(x)
        distance = F.kl_div(F.log_softmax(logits / self.temperature, dim=1), soft, reduction="batchmean")
        distance *= self.temperature**2
        hint = F.mse_loss(self.match(self.of_student.output), self.of_teacher.output)
        return distance + 0.5 * F.cross_entropy(logits, labels) + 0.1 * hint


def main():
    torch.manual_seed(105)
    model = Distillation(mlp(16), mlp(8))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    x = torch.randn(24, 6)
    with torch.no_grad():
        labels = model.teacher(x).argmax(1)
    for epoch in range(2):
        for rows, goals in zip(x.split(12), labels.split(12)):
            optimizer.zero_grad()
            loss = model(rows, goals)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            agreement = (model.student(x).argmax(1) == labels).float().mean().item()
        print(f"epoch {epoch}: {loss.item():.4f}, agreement {agreement:.2f}")
    print(f"size of features {model.of_student.size.mean().item():.4f}")


if __name__ == "__main__":
    main()
