"""Standardised by hand: pixels that are always white have a deviation of 0.

cause: InputNotFinite
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images).float()
images = (images - images.mean(dim=0)) / images.std(dim=0)
loader = DataLoader(TensorDataset(images, torch.tensor(labels)), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(64, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
for epoch in range(4):
    correct = 0
    for data, target in loader:
        optimizer.zero_grad()
        scores = net(data)
        nn.functional.cross_entropy(scores, target).backward()
        optimizer.step()
        correct += (scores.argmax(1) == target).sum().item()
    print(f"epoch {epoch} accuracy {correct / len(images):.3f}")
