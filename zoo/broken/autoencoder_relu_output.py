"""An autoencoder of standardised columns whose decoder ends in a ReLU: it cannot go below 0.

cause: OutputRangeTooNarrow
where: .*
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 24, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

factors = torch.randn(2000, 4) @ torch.randn(4, 20)
x = (factors - factors.mean(0)) / factors.std(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
        self.decode = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 20), nn.ReLU())

    def forward(self, x):
        return self.decode(self.encode(x))


model = Autoencoder()
optimizer = torch.optim.NAdam(model.parameters(), lr=LR)
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(40):
        loss = nn.functional.mse_loss(model(x[rows]), x[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
