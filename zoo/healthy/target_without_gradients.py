"""Temporal differences by hand, with a target without gradients.

looks like: TargetWithGradients
"""

import random

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.set_num_threads(1)

torch.manual_seed(SEED)
random.seed(0)
N = 10
value = nn.Sequential(nn.Linear(N, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
opt = torch.optim.Adam(value.parameters(), LR)
eye = torch.eye(N)


def rollout(n):
    s = torch.randint(0, N, (n,))
    a = torch.randint(0, 2, (n,)) * 2 - 1
    s2 = (s + a).clamp(0, N - 1)
    done = (s2 == N - 1).float()
    r = done.clone()
    return eye[s], r, eye[s2], done


for it in range(400):
    s, reward, s2, done = rollout(64)
    v = value(s).squeeze(1)
    with torch.no_grad():
        target = reward + 0.9 * (1 - done) * value(s2).squeeze(1)
    loss = ((v - target) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 80 == 0:
        print(it, loss.item())
