"""Labels are -1 and 1, as for a support vector machine, and the loss wants 0 and 1.

cause: LabelsOutOfRange
where: .*
step: 0
"""

import torch
from sklearn.datasets import make_classification
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

features, labels = make_classification(800, 12, n_informative=6, random_state=SEED)
x = torch.as_tensor(features, dtype=torch.float32)
y = torch.as_tensor(2 * labels - 1, dtype=torch.float32)
net = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)


def closure_for(rows):
    def closure():
        optimizer.zero_grad()
        loss = criterion(net(x[rows]), y[rows])
        loss.backward()
        return loss

    return closure


for epoch in range(12):
    for rows in torch.randperm(len(x)).split(40):
        loss = optimizer.step(closure_for(rows))
    print(f"epoch {epoch:2d}  loss {loss.item():.3f}")
