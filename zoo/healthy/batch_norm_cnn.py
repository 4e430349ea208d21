"""An ordinary convolutional network with batch norm, dropout, evaluation and a step decay."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 16, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
train = DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=32, shuffle=True)
test = DataLoader(TensorDataset(x[1500:], y[1500:]), batch_size=64)
model = nn.Sequential(
    nn.Conv2d(1, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU(),
    nn.Conv2d(WIDTH, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU(),
    nn.Flatten(), nn.Dropout(0.3), nn.Linear(WIDTH * 16, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.1)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    for inputs, labels in train:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in test)
    schedule.step()
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right / 297:.3f}")
