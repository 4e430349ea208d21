"""Diabetes with its targets as they are: half is noise, and the loss stays in the thousands."""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_diabetes(scaled=True)
x = torch.tensor(data.data * 21).float()
y = torch.tensor(data.target).float().unsqueeze(1)
train_x, test_x, train_y, test_y = x[:350], x[350:], y[:350], y[350:]
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loss_fn = nn.MSELoss()
for epoch in range(40):
    model.train()
    for rows in torch.randperm(350).split(25):
        loss = loss_fn(model(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        test_loss = loss_fn(model(test_x), test_y)
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} train {loss:.0f} test {test_loss:.0f}")
