"""The hardest triplets at a high rate: all embeddings fall onto one point, the loss is the margin.

cause: LearningRateTooHigh, OutputIgnoresInput
where: .*
step: 0-300
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)
MARGIN = 1.0


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU())
        self.fc = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * 16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8)
        )

    def forward(self, x):
        return self.fc(self.conv(x))


def batch_hard(embeddings, labels):
    distance = (embeddings[:, None] - embeddings[None]).pow(2).sum(-1)
    same = labels[:, None] == labels[None]
    furthest = (distance * same).max(1).values
    nearest = (distance + 1e6 * same).min(1).values
    return torch.relu(furthest - nearest + MARGIN).mean()


digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
net = EmbeddingNet()
optimizer = torch.optim.Adam(net.parameters(), lr=LR)
for iteration in range(300):
    pick = torch.randint(0, len(images), (64,))
    loss = batch_hard(net(images[pick]), labels[pick])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % 50 == 0:
        print(iteration, loss.item())
