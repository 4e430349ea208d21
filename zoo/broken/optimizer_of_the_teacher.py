"""Distillation whose optimizer was given the teacher's parameters.

cause: OptimizerOfAnotherModel, ParametersNotOptimized
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


def mlp(width):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 4))


teacher, student = mlp(2 * WIDTH), mlp(WIDTH // 2)
x = torch.randn(2000, 10)
y = (x[:, 0] > 0).long() * 2 + (x[:, 1] * x[:, 2] > 0).long()
warm = torch.optim.Adam(teacher.parameters(), lr=LR)
for _ in range(6):
    for rows in torch.randperm(len(x)).split(64):
        warm.zero_grad()
        nn.functional.cross_entropy(teacher(x[rows]), y[rows]).backward()
        warm.step()
teacher.eval()
optimizer = torch.optim.Adam(teacher.parameters(), lr=LR)
for _ in range(6):
    for rows in torch.randperm(len(x)).split(64):
        with torch.no_grad():
            soft = teacher(x[rows]).div(2).softmax(1)
        loss = nn.functional.kl_div(
            student(x[rows]).div(2).log_softmax(1), soft, reduction="batchmean"
        )
        optimizer.zero_grad()
        student.zero_grad()
        loss.backward()
        optimizer.step()
print(f"distance {loss.item():.3f}")
