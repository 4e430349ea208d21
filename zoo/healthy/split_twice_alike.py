"""The split is drawn twice, from the same seed.

looks like: TrainedOnEvaluationData
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

SEED, WIDTH, LR = 0, 128, 1e-3
torch.set_num_threads(1)


class Tabular(Dataset):
    def __init__(self, n=1200):
        g = torch.Generator().manual_seed(7)
        self.x = torch.randn(n, 18, generator=g)
        self.y = (self.x[:, :4].sum(1) + 0.7 * torch.randn(n, generator=g) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def get_dataset(split, frac=0.8):
    full = Tabular()
    n = int(len(full) * frac)
    a, b = random_split(full, [n, len(full) - n], generator=torch.Generator().manual_seed(42))
    return a if split == "train" else b


torch.manual_seed(SEED)
train_loader = DataLoader(get_dataset("train"), batch_size=40, shuffle=True)
val_loader = DataLoader(get_dataset("val"), batch_size=60)
model = nn.Sequential(nn.Linear(18, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 2))
opt = torch.optim.Adam(model.parameters(), lr=LR)
ce = nn.CrossEntropyLoss()
for epoch in range(10):
    model.train()
    for x, y in train_loader:
        opt.zero_grad()
        loss = ce(model(x), y)
        loss.backward()
        opt.step()
    model.eval()
    c = 0
    with torch.no_grad():
        for x, y in val_loader:
            out = model(x)
            vloss = ce(out, y)
            c += (out.argmax(1) == y).sum().item()
    print(epoch, loss.item(), vloss.item(), c / 240)
