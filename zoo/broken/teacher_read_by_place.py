"""Stored outputs of a teacher are read by the place of the batch, while the loader shuffles.

cause: LabelsShuffledApart
where: .*
step: 0-400
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 23, 12, 4e-3
torch.manual_seed(SEED)
centres = torch.randn(6, 14)
labels = torch.randint(0, 6, (2400,))
inputs = centres[labels] + 0.9 * torch.randn(2400, 14)
teacher_scores = -torch.cdist(inputs, centres).pow(2) / 1.62
loader = DataLoader(TensorDataset(inputs, labels, torch.arange(2400)), batch_size=80, shuffle=True)
student = nn.Sequential(nn.Linear(14, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 6))
opt = torch.optim.Adam(student.parameters(), lr=LR)
for epoch in range(8):
    for place, (x, y, _index) in enumerate(loader):
        wanted = teacher_scores[place * 80 : (place + 1) * 80]
        scores = student(x)
        likeness = -(wanted.softmax(1) * scores.log_softmax(1)).sum(1).mean()
        loss = 0.8 * likeness + 0.2 * F.cross_entropy(scores, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item(), (scores.argmax(1) == y).float().mean().item())
