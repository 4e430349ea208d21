"""An autoencoder with an L1 penalty: most hidden units are off for most digits, on purpose.

looks like: DeadLayer
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 100, 0.003
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.tensor(load_digits().data / 16).float()
encode, decode = nn.Linear(64, WIDTH), nn.Linear(WIDTH, 64)
optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=LR)
for epoch in range(10):
    for batch in x[torch.randperm(len(x))].split(50):
        code = F.relu(encode(batch))
        loss = F.mse_loss(torch.sigmoid(decode(code)), batch) + 2e-4 * code.abs().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f} active {(code > 0).float().mean():.2f}")
