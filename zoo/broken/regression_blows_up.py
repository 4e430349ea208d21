"""Plain SGD on a regression whose targets are in the hundreds: the loss is inf, then nan.

cause: LearningRateTooHigh, UnnormalizedTarget
where: .*
step: 0
"""

import torch
from sklearn.datasets import make_regression
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)

features, prices = make_regression(500, 10, noise=5.0, random_state=SEED)
x = torch.from_numpy(features).float()
y = torch.from_numpy(prices).float().view(-1, 1)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
        )

    def forward(self, x):
        return self.layers(x)


net = Regressor()
loss_function = nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=LR)
n_epochs, batch_size = 20, 20
for epoch in range(n_epochs):
    for start in range(0, len(x), batch_size):
        y_pred = net(x[start : start + batch_size])
        loss = loss_function(y_pred, y[start : start + batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"Finished epoch {epoch}, latest loss {loss.item()}")
