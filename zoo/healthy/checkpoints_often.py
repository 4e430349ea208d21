"""Every twenty steps it saves, evaluates and prints, which takes longer than the steps.

looks like: SlowDataLoading
"""

import io
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
model = nn.Sequential(
    nn.Conv2d(1, WIDTH, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(WIDTH * 64, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x[:1400], y[:1400]), 32, shuffle=True
)
step = 0
for _ in range(3):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 20 == 0:
            model.eval()
            with torch.no_grad():
                right = (model(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
            model.train()
            torch.save(model.state_dict(), io.BytesIO())
            time.sleep(0.3)  # a slow disk
            print(f"step {step} accuracy {right:.3f}")
