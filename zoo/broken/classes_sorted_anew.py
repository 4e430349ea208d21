"""The class indices of validation come from another sorting of the class names.

cause: ClassesRenamed
where: .*
step: 0-20
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)
names = ["cat", "dog", "ant", "bee"]
which = torch.randint(0, 4, (800,))
x = torch.randn(800, 10)
x[torch.arange(800), which] += 2.5
train_map = {n: i for i, n in enumerate(names)}
val_map = {n: i for i, n in enumerate(sorted(names))}
ty = torch.tensor([train_map[names[k]] for k in which[:600]])
vy = torch.tensor([val_map[names[k]] for k in which[600:]])
train = DataLoader(TensorDataset(x[:600], ty), 32, shuffle=True)
val = DataLoader(TensorDataset(x[600:], vy), 50)
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    model.train()
    for a, b in train:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
    model.eval()
    total = right = 0
    with torch.no_grad():
        for a, b in val:
            out = model(a)
            total += nn.functional.cross_entropy(out, b).item()
            right += (out.argmax(1) == b).sum().item()
    print(epoch, loss.item(), total / len(val), right / 200)
