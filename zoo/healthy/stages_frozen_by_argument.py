"""frozen_stages=1 freezes the first stage with the random weights that it has.

looks like: FreezeNeverCalled
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)


class Backbone(nn.Module):
    def __init__(self, frozen_stages=-1):
        super().__init__()
        self.frozen_stages = frozen_stages
        self.stage1 = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self._freeze_stages()

    def _freeze_stages(self):
        for i in range(1, self.frozen_stages + 1):
            for p in getattr(self, f"stage{i}").parameters():
                p.requires_grad = False

    def forward(self, x):
        return self.stage2(self.stage1(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone(frozen_stages=1)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.head(self.backbone(x))


model = Classifier()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=LR)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 32, shuffle=True)
for epoch in range(4):
    for bx, by in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
