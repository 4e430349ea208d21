"""XOR by a single layer: a line cannot separate it, and every answer is one half.

cause: NothingLearnt
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn

SEED, WIDTH, LR = 0, 1, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)

inputs = torch.from_numpy(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32))
answers = torch.from_numpy(np.array([[0], [1], [1], [0]], dtype=np.float32))


class Xor(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, x):
        return torch.sigmoid(self.linear(x))


net = Xor()
opt = torch.optim.SGD(net.parameters(), lr=LR)
for epoch in range(1500):
    loss = nn.functional.binary_cross_entropy(net(inputs), answers)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 300 == 0:
        print(f"Epoch {epoch}: {loss.item():.4f}")
