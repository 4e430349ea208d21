"""Every layer of a deep ReLU net is drawn from a standard normal distribution.

cause: WeightsTooLarge, ExplodingGradient
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import make_blobs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 50, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)


class BlobNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, WIDTH)
        self.fc4 = nn.Linear(WIDTH, WIDTH)
        self.fc5 = nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = F.relu(self.fc3(x))
        x = F.relu(self.fc4(x))
        return self.fc5(x)


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight)
        nn.init.zeros_(m.bias)


points, groups = make_blobs(600, centers=3, cluster_std=2.0, random_state=SEED)
points = (points - points.mean(0)) / points.std(0)
data = TensorDataset(torch.tensor(points, dtype=torch.float32), torch.tensor(groups).long())
model = BlobNet()
model.apply(init)
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
for epoch in range(10):
    total = 0.0
    for inputs, labels in DataLoader(data, batch_size=32, shuffle=True):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("epoch", epoch, "loss", total)
