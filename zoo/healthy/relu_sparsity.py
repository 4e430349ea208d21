"""A wide ReLU network with an L1 penalty: most activations are zero, as intended.

looks like: DeadLayer
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 256, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
hidden = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU())
model = nn.Sequential(hidden, nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
seen = []
hidden.register_forward_hook(lambda module, args, output: seen.append(output))

for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        seen.clear()
        loss = criterion(model(x[rows]), y[rows]) + 0.05 * seen[0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
