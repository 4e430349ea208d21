"""The frozen teacher is left in training mode: its dropout makes noise of its targets.

cause: TeacherDropsOut
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
centers = torch.randn(5, 16) * 1.5


def batch(n=64):
    y = torch.randint(0, 5, (n,))
    return centers[y] + torch.randn(n, 16), y


teacher = nn.Sequential(
    nn.Linear(16, 4 * WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4 * WIDTH, 5)
)
opt = torch.optim.Adam(teacher.parameters(), lr=LR)
for _ in range(150):
    x, y = batch()
    loss = F.cross_entropy(teacher(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
for p in teacher.parameters():
    p.requires_grad_(False)

student = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5))
opt = torch.optim.Adam(student.parameters(), lr=LR)
T = 3.0
for step in range(200):
    x, y = batch()
    soft = F.softmax(teacher(x) / T, dim=-1)
    out = student(x)
    loss = F.kl_div(F.log_softmax(out / T, dim=-1), soft, reduction="batchmean") * T**2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
