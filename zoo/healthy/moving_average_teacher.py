"""A student learns from a teacher that is its own moving average and in no optimizer.

looks like: OptimizerOfAnotherModel, TeacherTrained
"""

import copy

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(1600, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
student = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
teacher = copy.deepcopy(student)
optimizer = torch.optim.Adam(student.parameters(), lr=LR)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(32):
        noisy = x[rows] + 0.1 * torch.randn(len(rows), 10)
        scores = student(noisy)
        with torch.no_grad():
            wanted = teacher(x[rows]).softmax(1)
        loss = nn.functional.cross_entropy(scores, y[rows])
        loss = loss + 0.3 * nn.functional.mse_loss(scores.softmax(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                old.lerp_(new, 0.05)
    print(f"epoch {epoch} loss {loss.item():.4f}")
