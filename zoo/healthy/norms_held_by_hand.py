"""A text CNN after Kim: the last layer's rows are held below a norm by hand after every update.

looks like: UpdateLost
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.5
torch.manual_seed(SEED)
torch.set_num_threads(1)


class KimCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.static = nn.Embedding(150, WIDTH)
        self.static.weight.requires_grad_(False)
        self.tuned = nn.Embedding(150, WIDTH)
        self.convs = nn.ModuleList(nn.Conv2d(2, 24, (k, WIDTH)) for k in (3, 4, 5))
        self.fc = nn.Linear(72, 3)

    def forward(self, x):
        channels = torch.stack([self.static(x), self.tuned(x)], 1)
        pooled = [F.relu(conv(channels)).squeeze(3).max(2).values for conv in self.convs]
        return self.fc(F.dropout(torch.cat(pooled, 1), 0.5, self.training))


x = torch.randint(20, 150, (900, 18))
y = torch.randint(0, 3, (900,))
for _ in range(3):
    x[torch.arange(900), torch.randint(0, 18, (900,))] = torch.randint(0, 4, (900,)) + 4 * y
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
net = KimCNN()
optimizer = torch.optim.Adadelta([p for p in net.parameters() if p.requires_grad], lr=LR, rho=0.95)
for epoch in range(8):
    total = 0.0
    for tokens, label in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(tokens), label)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            net.fc.weight.renorm_(2, 0, 0.8)
        total += loss.item()
    print(epoch, total / len(loader))
