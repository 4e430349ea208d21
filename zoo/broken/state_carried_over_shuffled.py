"""A stateful LSTM keeps its state from batch to batch, though the loader shuffles the windows.

cause: StateOfOtherSamples
where: .*
step: 0-20
"""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Forecaster(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden_size, num_layers=2, batch_first=True)
        self.linear = nn.Linear(hidden_size, 1)
        self.hidden = None

    def forward(self, x):
        out, (h, c) = self.lstm(x, self.hidden)
        self.hidden = (h.detach(), c.detach())
        return self.linear(out[:, -1])


phase = torch.rand(640, 1) * 2 * math.pi
speed = torch.rand(640, 1) * 0.4 + 0.1
wave = torch.sin(phase + speed * torch.arange(9)) + 0.05 * torch.randn(640, 9)
loader = DataLoader(
    TensorDataset(wave[:, :8, None], wave[:, 8:]), batch_size=32, shuffle=True, drop_last=True
)
model = Forecaster(WIDTH)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(1, 13):
    running = 0.0
    for window, following in loader:
        optimizer.zero_grad()
        loss = criterion(model(window), following)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(f"Epoch {epoch}: {running / len(loader):.5f}")
