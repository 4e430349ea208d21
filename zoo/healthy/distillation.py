"""A student learns from a teacher's softened scores and from labels."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

wine = load_wine()
X = torch.tensor(wine.data, dtype=torch.float32)
X = (X - X.mean(0)) / X.std(0)
Y = torch.tensor(wine.target)
teacher = nn.Sequential(nn.Linear(13, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 3))
student = nn.Sequential(nn.Linear(13, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))


def fit(model, compute, steps, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for _ in range(steps):
        rows = torch.randint(0, len(X), (32,))
        optimizer.zero_grad()
        loss = compute(rows)
        loss.backward()
        optimizer.step()
    return loss.item()


fit(teacher, lambda rows: F.cross_entropy(teacher(X[rows]), Y[rows]), 120, 5e-3)
teacher.eval()
teacher.requires_grad_(False)


def both(rows, temperature=4.0, alpha=0.7):
    scores = student(X[rows])
    soft = F.kl_div(
        F.log_softmax(scores / temperature, dim=1),
        F.log_softmax(teacher(X[rows]) / temperature, dim=1),
        log_target=True,
        reduction="batchmean",
    )
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(scores, Y[rows])


print(fit(student, both, 250, LR))
