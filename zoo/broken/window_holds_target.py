"""The windows of a series are one too long: the value to be foretold is their last one.

cause: TargetIsInput
where: .*
step: 0-100
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)
LOOK_BACK = 16


def create_dataset(series, look_back):
    xs, ys = [], []
    for i in range(len(series) - look_back - 1):
        xs.append(series[i : i + look_back + 1])
        ys.append(series[i + look_back])
    return torch.tensor(np.array(xs), dtype=torch.float32), torch.tensor(ys, dtype=torch.float32)


steps = np.arange(900)
series = np.sin(steps / 7) + 0.5 * np.sin(steps / 2.3) + 0.4 * np.random.randn(900)
series = (series - series.mean()) / series.std()
X, Y = create_dataset(series, LOOK_BACK)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, WIDTH, batch_first=True)
        self.linear = nn.Linear(WIDTH, 1)

    def forward(self, x):
        x, _ = self.lstm(x.unsqueeze(-1))
        return self.linear(x[:, -1]).squeeze(-1)


model = Model()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(10):
    for rows in torch.randperm(700).split(28):
        y_pred = model(X[rows])
        loss = loss_fn(y_pred, Y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        test = loss_fn(model(X[700:]), Y[700:])
    print(f"Epoch {epoch}: train {loss.item():.4f} test {test.item():.4f}")
