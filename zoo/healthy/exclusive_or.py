"""XOR, four rows again and again: the loss stays at its start for hundreds of steps, then falls.

looks like: NothingLearnt
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 4, 0.5
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
model = nn.Sequential(nn.Linear(2, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, 1), nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.MSELoss()
for epoch in range(2000):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if epoch % 250 == 0:
        print(epoch, loss.item())
print(model(x).round().flatten().tolist())
