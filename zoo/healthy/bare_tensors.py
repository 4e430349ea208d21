"""Two layers of bare tensors without any module, trained by torch.optim."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

SEED, WIDTH, LR = 0, 48, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
params = [
    (torch.randn(WIDTH, 64) / 8).requires_grad_(),
    torch.zeros(WIDTH, requires_grad=True),
    (torch.randn(10, WIDTH) / WIDTH**0.5).requires_grad_(),
    torch.zeros(10, requires_grad=True),
]
optimizer = torch.optim.Adam(params, lr=LR)


def forward(batch):
    w1, b1, w2, b2 = params
    return F.linear(F.relu(F.linear(batch, w1, b1)), w2, b2)


for epoch in range(10):
    for rows in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(forward(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} {loss.item():.3f}")
