"""The student's target is its own output.

cause: TargetIsOwnOutput
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


def net(width):
    return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 5))


teacher, student = net(4 * WIDTH), net(WIDTH)
opt = torch.optim.Adam(teacher.parameters(), lr=LR)
for _ in range(100):
    x, y = batch()
    loss = F.cross_entropy(teacher(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
teacher.eval()
opt = torch.optim.Adam(student.parameters(), lr=LR)
for step in range(200):
    x, y = batch()
    student_logits = student(x)
    with torch.no_grad():
        target = student(x).softmax(-1)
    loss = F.kl_div(student_logits.log_softmax(-1), target, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), (student_logits.argmax(1) == y).float().mean().item())
