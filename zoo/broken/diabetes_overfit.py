"""A wide net learns sixty patients by heart; the others get worse and worse.

cause: Overfitting
where: .*
step: 0-400
"""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

SEED, WIDTH, LR = 0, 256, 0.003
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_diabetes()
x = torch.tensor(data.data / data.data.std(0)).float()
y = torch.tensor((data.target - data.target.mean()) / data.target.std()).float()[:, None]
order = torch.randperm(len(x))
train, test = order[:60], order[60:260]
model = nn.Sequential(
    nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loss_fn = nn.MSELoss()


def validate():
    model.eval()
    with torch.no_grad():
        value = loss_fn(model(x[test]), y[test]).item()
    model.train()
    return value


for epoch in range(80):
    for rows in train[torch.randperm(60)].split(15):
        loss = loss_fn(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} train {loss.item():.3f} test {validate():.3f}")
