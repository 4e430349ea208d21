"""The teacher is in the optimizer and its output has gradients: it follows the student.

cause: TeacherTrained
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


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, width), nn.ReLU())
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.body(x))


teacher, student = Net(4 * WIDTH), Net(WIDTH)
pre = torch.optim.Adam(teacher.parameters(), lr=LR)
for _ in range(100):
    x, y = batch()
    loss = F.cross_entropy(teacher(x), y)
    pre.zero_grad()
    loss.backward()
    pre.step()

teacher.eval()
opt = torch.optim.Adam(list(student.parameters()) + list(teacher.parameters()), lr=LR)
T = 2.0
for step in range(200):
    x, y = batch()
    teacher_logits = teacher(x)
    out = student(x)
    loss = (
        T
        * T
        * F.kl_div(
            F.log_softmax(out / T, 1), F.softmax(teacher_logits / T, 1), reduction="batchmean"
        )
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), (out.argmax(1) == y).float().mean().item())
