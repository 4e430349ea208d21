"""F.dropout without training=self.training: active in evaluation.

cause: DropoutInEvaluation
where: .*
step: 0-20
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 48, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Linear(16, WIDTH), nn.Linear(WIDTH, 4))

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = F.dropout(h, 0.5)
        return self.b(h)


x = torch.randn(800, 16)
y = (x @ torch.randn(16, 4)).argmax(1)
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    model.train()
    for i in torch.randperm(600).split(32):
        opt.zero_grad()
        loss = F.cross_entropy(model(x[i]), y[i])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(x[600:])
        print(epoch, (out.argmax(1) == y[600:]).float().mean().item())
