"""One output unit with softmax: it is 1 whatever the input is.

cause: ConstantOutput
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

data = load_breast_cancer()
x = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0)).float()
y = torch.tensor(data.target).float().reshape(-1, 1)
model = nn.Sequential(
    nn.Linear(30, WIDTH),
    nn.ReLU(),
    nn.Linear(WIDTH, WIDTH),
    nn.ReLU(),
    nn.Linear(WIDTH, 1),
    nn.Softmax(dim=1),
)
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(15):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        output = model(x[rows])
        loss = criterion(output, y[rows])
        loss.backward()
        optimizer.step()
    accuracy = ((output > 0.5).float() == y[rows]).float().mean()
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {accuracy:.3f}")
