"""SGD with 1e-4 on scaled breast cancer data: after 40 epochs the loss has hardly moved.

cause: LearningRateTooLow
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn

SEED, WIDTH, LR = 0, 24, 1e-4
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor(StandardScaler().fit_transform(data.data), dtype=torch.float)
y = torch.tensor(data.target, dtype=torch.float)
model = nn.Sequential(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Sigmoid())
loss_fn = nn.BCELoss()
opt = torch.optim.SGD(model.parameters(), lr=LR)

for epoch in range(40):
    for i in range(0, len(x), 64):
        pred = model(x[i : i + 64]).squeeze(1)
        loss = loss_fn(pred, y[i : i + 64])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, float(loss))
