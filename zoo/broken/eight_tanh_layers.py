"""Eight tanh layers with weights of 0.01: next to nothing comes back to the first.

cause: FadingGradient,WeightsTooSmall
where: .*
step: 0
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler
from torch import nn

SEED, WIDTH, LR = 202, 32, 0.0056
torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)

X, Y = make_moons(800, noise=0.15, random_state=SEED)
X = StandardScaler().fit_transform(X)
X = torch.tensor(X, dtype=torch.float32)
Y = torch.tensor(Y, dtype=torch.long)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, WIDTH)
        self.fc5 = nn.Linear(WIDTH, WIDTH)
        self.fc6 = nn.Linear(WIDTH, WIDTH)
        self.fc7 = nn.Linear(WIDTH, WIDTH)
        self.fc8 = nn.Linear(WIDTH, WIDTH)
        self.fc9 = nn.Linear(WIDTH, 2)

    def forward(self, x):
        h = torch.tanh(self.fc1(x))
        h = torch.tanh(self.fc2(h))
        h = torch.tanh(self.fc3(h))
        h = torch.tanh(self.fc4(h))
        h = torch.tanh(self.fc5(h))
        h = torch.tanh(self.fc6(h))
        h = torch.tanh(self.fc7(h))
        h = torch.tanh(self.fc8(h))
        return self.fc9(h)


model = Net()

for p in model.parameters():
    if p.dim() > 1:
        nn.init.normal_(p, 0, 0.01)

optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)

for epoch in range(7):
    for rows in torch.randperm(len(X)).split(16):
        xb, yb = X[rows], Y[rows]
        optimizer.zero_grad()
        out = model(xb)
        loss = F.cross_entropy(out, yb)
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
