"""A name does not match, so that everything but the last bias is frozen.

cause: FrozenByMistake
where: .*
step: 0-20
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
        )
        self.classifier = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.classifier(self.body(x))


model = Net()
for name, parameter in model.named_parameters():
    parameter.requires_grad = name.endswith("classifier.bias")  # meant: "classifier" in name
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(50):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
