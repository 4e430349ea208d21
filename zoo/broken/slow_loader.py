"""Each batch takes a hundred times longer to load than to train on.

cause: SlowDataLoading
where: .*
step: 0
"""

import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SlowDigits(Dataset):
    def __init__(self):
        digits = load_digits()
        self.x = torch.tensor(digits.data / 16, dtype=torch.float32)
        self.y = torch.tensor(digits.target)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(0.005)
        return self.x[index], self.y[index]


loader = DataLoader(SlowDigits(), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for step, (inputs, labels) in enumerate(loader):
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    if step == 60:
        break
print(f"loss {loss.item():.3f}")
