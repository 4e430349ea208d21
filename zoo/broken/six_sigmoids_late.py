r"""Six sigmoid layers with Adam: for four hundred steps nothing happens, then it learns a little.

cause: FadingGradient
where: hidden\.0\.weight
step: 0
"""

import numpy as np
import torch
from sklearn.datasets import make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 163, 16, 0.0011
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = make_friedman1(900, noise=0.5, random_state=SEED)
Y = (Y - Y.mean()) / Y.std()
X = (X - X.mean(0)) / (X.std(0) + 1e-8)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.float32).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList(
            [nn.Linear(10, WIDTH)] + [nn.Linear(WIDTH, WIDTH) for _ in range(5)]
        )
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.sigmoid(layer(x))
        return self.out(x)


model = Net()

optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.MSELoss()

loader = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)
for epoch in range(10):
    for xb, yb in loader:
        out = model(xb)
        loss = criterion(out, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
