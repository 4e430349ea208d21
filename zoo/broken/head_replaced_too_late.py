"""Fine-tuning: the head is replaced after the optimizer was made, and so never trained.

cause: ParametersNotOptimized
where: fc|head
step: 0-20
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 16, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SmallResNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.conv2 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(WIDTH)
        self.fc = nn.Linear(WIDTH, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(x + self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
labels = torch.tensor(digits.target)

model = SmallResNet(1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
model.fc = nn.Linear(WIDTH, 10)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

for epoch in range(4):
    model.train()
    for index in torch.randperm(1500).split(50):
        loss = criterion(model(images[index]), labels[index])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.inference_mode():
        hits = (model(images[1500:]).argmax(-1) == labels[1500:]).float().mean()
    print(f"epoch {epoch}: {hits:.3f}")
