"""A GRU on a price series of tens of thousands, neither inputs nor targets scaled.

cause: UnnormalizedTarget, UnnormalizedInput
where: .*
step: 0-20
"""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 24, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

prices = 30000 + torch.cumsum(120 * torch.randn(1500), 0)
WINDOW = 24


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(1, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, window):
        out, _ = self.gru(window)
        return self.fc(out[:, -1])


class Experiment:
    def __init__(self, series):
        self.x = series.unfold(0, WINDOW, 1)[:-1].unsqueeze(-1)
        self.y = series[WINDOW:].unsqueeze(-1)
        self.model = Forecaster(WIDTH)
        self.optim = torch.optim.Adam(self.model.parameters(), lr=LR)
        self.loss = nn.MSELoss()

    def fit(self, epochs):
        for e in range(epochs):
            order = torch.randperm(len(self.x))
            running = 0.0
            for chunk in order.split(64):
                self.optim.zero_grad()
                loss = self.loss(self.model(self.x[chunk]), self.y[chunk])
                loss.backward()
                self.optim.step()
                running += loss.item()
            print(f"[{e + 1}/{epochs}] mse {running / len(order.split(64)):.1f}")


Experiment(prices).fit(8)
