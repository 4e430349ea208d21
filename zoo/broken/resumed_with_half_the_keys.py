"""Only the body was wrapped when the checkpoint was written: the head is loaded, the body is not.

cause: WeightsPartlyLoaded
where: .*
step: 200-205
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(2048, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)


class Net(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        body = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.body = nn.ModuleDict({"module": body}) if wrap else body
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        body = self.body["module"] if isinstance(self.body, nn.ModuleDict) else self.body
        return self.head(body(x).relu())


def train(model, optimizer, steps):
    for _ in range(steps):
        rows = torch.randint(0, 2048, (64,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


model = Net(wrap=True)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
train(model, optimizer, 200)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
model = Net(wrap=False)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
saved = torch.load("checkpoint.pt")
model.load_state_dict(saved["model"], strict=False)
optimizer.load_state_dict(saved["optimizer"])
train(model, optimizer, 200)
