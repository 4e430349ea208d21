"""Ten sigmoid layers for two rings of points, as in a first course; nothing reaches the first ones.

cause: FadingGradient
where: hidden.0
step: 0
"""

import torch
from sklearn.datasets import make_circles
from torch import nn

SEED, WIDTH, LR = 0, 16, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)


class RingNet(nn.Module):
    def __init__(self, depth=10):
        super().__init__()
        sizes = [2] + [WIDTH] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False))
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.sigmoid(layer(x))
        return torch.sigmoid(self.out(x))


def train(net, x, y, epochs):
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    loss_fn = nn.BCELoss()
    for epoch in range(epochs):
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        optimizer.step()
        if epoch % 100 == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")


points, rings = make_circles(400, noise=0.05, factor=0.5, random_state=SEED)
train(
    RingNet(),
    torch.tensor(points, dtype=torch.float32),
    torch.tensor(rings, dtype=torch.float32).unsqueeze(1),
    epochs=500,
)
