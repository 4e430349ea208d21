"""KLDivLoss is given probabilities; it wants their logarithms.

cause: LossInputNotLogProbabilities
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(600, 8)
mixing = torch.randn(8, 5)
wanted = F.softmax(x @ mixing, dim=1)
model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5), nn.Softmax(dim=-1))
criterion = nn.KLDivLoss(reduction="batchmean")
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    for rows in torch.randperm(600).split(30):
        loss = criterion(model(x[rows]), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
