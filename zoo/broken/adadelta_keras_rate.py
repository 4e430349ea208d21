"""Adadelta with the 0.001 that is the default elsewhere; here its default is 1.

cause: LearningRateTooLow
where: .*
step: 0
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.001
torch.manual_seed(SEED)
torch.set_num_threads(1)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3)
        self.drop = nn.Dropout(0.25)
        self.fc1 = nn.Linear(16 * 2 * 2, WIDTH)
        self.fc2 = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(self.drop(x), 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train_epoch(model, loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % 10 == 0:
            print(f"Train epoch {epoch} [{batch}/{len(loader)}] loss {loss.item():.6f}")


images, labels = load_digits(return_X_y=True)
dataset = TensorDataset(
    torch.tensor(images.reshape(-1, 1, 8, 8) / 16).float(), torch.tensor(labels)
)
model = ConvNet()
optimizer = torch.optim.Adadelta(model.parameters(), lr=LR)
for epoch in range(1, 6):
    train_epoch(model, DataLoader(dataset, batch_size=64, shuffle=True), optimizer, epoch)
