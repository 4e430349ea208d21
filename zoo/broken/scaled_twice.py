"""Pixels are divided by 255 in the dataset and once more in the loop: the net sees next to nothing.

cause: UnnormalizedInput
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 64, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)
rng = np.random.default_rng(SEED)


class Shapes(Dataset):
    """Bars, crosses and squares on 12 x 12 pixels."""

    def __init__(self, n=600):
        self.images = rng.integers(0, 60, (n, 1, 12, 12)).astype(np.uint8)
        self.labels = rng.integers(0, 3, n)
        for image, label in zip(self.images, self.labels, strict=True):
            r, c = rng.integers(2, 6, 2)
            if label == 0:
                image[0, r : r + 5, c] = 255
            elif label == 1:
                image[0, r + 2, c : c + 5] = 255
                image[0, r : r + 5, c + 2] = 255
            else:
                image[0, r : r + 5, c : c + 5] = 255

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.tensor(self.images[i] / 255.0, dtype=torch.float32), int(self.labels[i])


model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(8 * 5 * 5, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(8):
    for image, label in DataLoader(Shapes(), batch_size=20, shuffle=True):
        image = image / 255.0
        optimizer.zero_grad()
        loss = criterion(model(image), label)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
