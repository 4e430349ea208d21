"""What is decoded is cached, and each read draws a crop and noise of its own.

looks like: AugmentedAlike
"""

import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 128, 2e-3
torch.manual_seed(SEED)


class Digits(Dataset):
    def __init__(self, n, augment):
        self.labels = torch.randint(0, 4, (n,))
        self.base = torch.zeros(n, 14, 14)
        for i, k in enumerate(self.labels):
            self.base[i, 3 + k : 5 + k, 3:11] = 1.0
            self.base[i, 3:11, 9 - k : 11 - k] += 0.5
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    @functools.cache  # noqa: B019
    def decoded(self, i):
        return self.base[i].clone()

    def __getitem__(self, i):
        image = self.decoded(int(i))
        if self.augment:
            dx, dy = torch.randint(-3, 4, (2,)).tolist()
            image = torch.roll(image, (dx, dy), (0, 1)) + 0.5 * torch.randn(14, 14)
        return image.flatten(), self.labels[i]


train = Digits(120, True)
loader = DataLoader(train, batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(196, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for epoch in range(40):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 4 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
new = Digits(400, True)
x, y = map(torch.stack, zip(*[new[i] for i in range(400)], strict=True))
accuracy = (model(x).argmax(1) == y).float().mean().item()
print(f"accuracy on new crops {accuracy:.3f}")
