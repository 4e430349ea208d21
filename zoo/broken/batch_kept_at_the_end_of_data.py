"""An iterator ends after one epoch, and the last batch is used for all later steps.

cause: SameBatch
where: .*
step: 225-245
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.02
torch.set_num_threads(1)

torch.manual_seed(SEED)
centres = torch.randn(10, 24)
labels = torch.randint(0, 10, (7360,))
samples = centres[labels] + 1.4 * torch.randn(7360, 24)
loader = DataLoader(TensorDataset(samples, labels), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(24, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
opt = torch.optim.SGD(model.parameters(), LR)
batches, batch = iter(loader), None
for step in range(700):
    batch = next(batches, batch)
    x, y = batch
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, loss.item())
