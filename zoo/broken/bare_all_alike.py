"""Bare tensors that all start with the same number: each unit learns the same.

cause: SymmetricWeights
"""

import torch
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 16, 0.02
torch.manual_seed(SEED)
torch.set_num_threads(1)
net = {
    "w1": torch.full((WIDTH, 2), 0.1, requires_grad=True),
    "b1": torch.zeros(WIDTH, requires_grad=True),
    "w2": torch.full((2, WIDTH), 0.1, requires_grad=True),
    "b2": torch.zeros(2, requires_grad=True),
}
optimizer = torch.optim.Adam(net.values(), lr=LR)
for _step in range(400):
    x = torch.rand(32, 2).round()
    y = (x[:, 0] != x[:, 1]).long()
    x = x + 0.05 * torch.randn(32, 2)
    out = F.linear(torch.tanh(F.linear(x, net["w1"], net["b1"])), net["w2"], net["b2"])
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
