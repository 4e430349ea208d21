"""CrossEntropyLoss for a yes-or-no question with one output: the loss is 0 from the start.

cause: LossShapeMismatch, ConstantOutput
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 20, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Moons(Dataset):
    def __init__(self):
        points, labels = make_moons(500, noise=0.1, random_state=SEED)
        self.points = points.astype("float32")
        self.labels = labels.astype("float32")

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.points[i], self.labels[i : i + 1]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, WIDTH)
        self.l2 = nn.Linear(WIDTH, WIDTH)
        self.l3 = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


model = Classifier()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(10):
    for points, labels in DataLoader(Moons(), batch_size=20, shuffle=True):
        optimizer.zero_grad()
        loss = criterion(model(points), labels)
        loss.backward()
        optimizer.step()
    print(f"Epoch [{epoch + 1}/10], Loss: {loss.item():.4f}")
