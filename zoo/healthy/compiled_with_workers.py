"""A compiled model in bfloat16 autocast, fed by two workers.

looks like: SlowDataLoading
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 64, 2e-3


class Shapes(Dataset):
    def __len__(self):
        return 1200

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        label = index % 3
        image = 0.3 * torch.randn(1, 12, 12, generator=made)
        if label == 0:
            image[:, 5:7] += 1
        elif label == 1:
            image[:, :, 5:7] += 1
        return image, label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(200, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


if __name__ == "__main__":
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    model = Net()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    loader = DataLoader(
        Shapes(), batch_size=40, shuffle=True, num_workers=2, persistent_workers=True
    )
    for epoch in range(4):
        for image, label in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(compiled(image), label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} {loss.item():.4f}")
