"""The test set is run without eval() and without no_grad(): dropout and batch norm are on.

cause: EvaluationInTrainingMode
where: .*
step: 0-120
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(digits.target)
train = torch.utils.data.TensorDataset(x[:1400], y[:1400])
test = torch.utils.data.TensorDataset(x[1400:], y[1400:])
train_loader = torch.utils.data.DataLoader(train, batch_size=40, shuffle=True)
test_loader = torch.utils.data.DataLoader(test, batch_size=40)
model = nn.Sequential(
    nn.Conv2d(1, WIDTH, 3),
    nn.BatchNorm2d(WIDTH),
    nn.ReLU(),
    nn.Flatten(),
    nn.Dropout(0.4),
    nn.Linear(WIDTH * 36, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    for images, labels in train_loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    total = right = 0
    for images, labels in test_loader:
        outputs = model(images)
        total += criterion(outputs, labels).item()
        right += (outputs.argmax(1) == labels).sum().item()
    print(f"epoch {epoch} test loss {total / len(test_loader):.3f} right {right / len(test):.3f}")
