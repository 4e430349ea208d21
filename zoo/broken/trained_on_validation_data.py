"""The training loop was pasted with the validation loader; the training set is never read.

cause: EvaluationOnTrainingData
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(2400, 12)
y = (x[:, :1] * x[:, 1:2]) + 0.3 * x[:, 2:3]
loaders = {
    "train": DataLoader(TensorDataset(x[:2000], y[:2000]), batch_size=50, shuffle=True),
    "val": DataLoader(TensorDataset(x[2000:], y[2000:]), batch_size=50, shuffle=False),
}
model = nn.Sequential(nn.Linear(12, WIDTH), nn.ELU(), nn.Linear(WIDTH, 1))
criterion = nn.SmoothL1Loss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(25):
    for phase in ["train", "val"]:
        model.train(phase == "train")
        total = 0.0
        for features, target in loaders["val"]:
            with torch.set_grad_enabled(phase == "train"):
                loss = criterion(model(features), target)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} {phase} {total / len(loaders['val']):.4f}")
