"""Tanh on the scores of a classifier: no class can get more than e squared times another.

cause: OutputRangeTooNarrow
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 60, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 10, 3), nn.Tanh(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Linear(90, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 10), nn.Tanh()
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


digits = load_digits()
loader = DataLoader(
    TensorDataset(torch.tensor(digits.images / 16).float()[:, None], torch.tensor(digits.target)),
    batch_size=50,
    shuffle=True,
)
model = Digits()
optimizer = optim.Adam(model.parameters(), lr=LR)
for epoch in range(8):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
