"""The evaluation switches the gradients of the body off, and nothing switches them on again.

cause: FrozenByMistake
where: body.0.weight
step: 225-240
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.02
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(24, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
        )
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.head(self.body(x))


def evaluate(model, x, y):
    model.eval()
    for parameter in model.body.parameters():
        parameter.requires_grad = False
    with torch.no_grad():
        right = model(x).argmax(1).eq(y).float().mean().item()
    model.train()
    return right


torch.manual_seed(SEED)
centres = torch.randn(10, 24)
labels = torch.randint(0, 10, (8000,))
samples = centres[labels] + 1.4 * torch.randn(8000, 24)
data = TensorDataset(samples[:7360], labels[:7360])
model = Net()
opt = torch.optim.SGD(model.parameters(), LR)
for epoch in range(3):
    for x, y in DataLoader(data, batch_size=32, shuffle=True):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item(), evaluate(model, samples[7360:], labels[7360:]))
