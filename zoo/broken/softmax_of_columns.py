"""Softmax over the batch instead of the classes, before a loss that takes logits.

cause: LossInputAlreadySoftmax
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SEED, WIDTH, LR = 0, 16, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Iris(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(4, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, 3)
        self.softmax = nn.Softmax(dim=0)

    def forward(self, x):
        x = torch.relu(self.input(x))
        x = torch.relu(self.hidden(x))
        return self.softmax(self.output(x))


iris = load_iris()
full = TensorDataset(torch.tensor(iris.data / iris.data.max(0)).float(), torch.tensor(iris.target))
train, valid = random_split(full, [120, 30])
model, lossfn = Iris(), nn.CrossEntropyLoss()
optim = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(60):
    for data, target in DataLoader(train, batch_size=12, shuffle=True):
        optim.zero_grad()
        loss = lossfn(model(data), target)
        loss.backward()
        optim.step()
    if epoch % 10 == 0:
        hits = sum(
            (model(a).argmax(1) == b).sum().item() for a, b in DataLoader(valid, batch_size=30)
        )
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {hits / 30:.2f}")
