"""Eight tanh layers with weights between -0.05 and 0.05, an initialiser from elsewhere.

cause: WeightsTooSmall, FadingGradient
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 24, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        self.linear.weight.data.uniform_(-0.05, 0.05)
        self.linear.bias.data.zero_()

    def forward(self, x):
        return self.linear(x).tanh()


digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
model = nn.Sequential(
    Block(64, WIDTH), *[Block(WIDTH, WIDTH) for _ in range(7)], nn.Linear(WIDTH, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for epoch in range(5):
    for rows in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
