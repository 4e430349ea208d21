"""Distillation: kl_div is given the student's probabilities instead of their logarithms.

cause: LossInputNotLogProbabilities
where: .*
step: 150-200
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
X = torch.tensor(digits.data, dtype=torch.float32) / 16
Y = torch.tensor(digits.target)
T = 3.0

teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
student = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def train_teacher():
    opt = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for _ in range(150):
        idx = torch.randint(0, 1500, (64,))
        opt.zero_grad()
        F.cross_entropy(teacher(X[idx]), Y[idx]).backward()
        opt.step()


def distill():
    teacher.eval()
    opt = torch.optim.SGD(student.parameters(), lr=LR, momentum=0.9)
    for i in range(300):
        idx = torch.randint(0, 1500, (64,))
        with torch.no_grad():
            soft_targets = F.softmax(teacher(X[idx]) / T, dim=1)
        soft_prob = F.softmax(student(X[idx]) / T, dim=1)
        loss = F.kl_div(soft_prob, soft_targets, reduction="batchmean") * T * T
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 60 == 0:
            print(f"{i:4d} {loss.item():.4f}")


train_teacher()
distill()
with torch.no_grad():
    print("accuracy", (student(X[1500:]).argmax(1) == Y[1500:]).float().mean().item())
