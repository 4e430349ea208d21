"""The validation part is cut from the data that is trained on.

cause: TrainedOnEvaluationData
where: .*
step: 0-20
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = torch.randn(600, 24)
y = (x[:, :3].sum(1) + torch.randn(600) > 0).long()
train_x, train_y = (x, y)
val_x, val_y = (x[:150], y[:150])
train = DataLoader(TensorDataset(train_x, train_y), 32, shuffle=True)
val = DataLoader(TensorDataset(val_x, val_y), 50)
model = nn.Sequential(nn.Linear(24, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
opt = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=0.001)
for epoch in range(10):
    model.train()
    for a, b in train:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for a, b in val:
            right += (model(a).argmax(1) == b).sum().item()
    print(epoch, right / len(val_y))
