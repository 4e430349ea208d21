"""An optimizer written by hand, and a transposed weight that it updates in place.

looks like: UpdateLost
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)


class PlainSGD(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=group["lr"])


digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
data = TensorDataset(x, torch.tensor(digits.target))
loader = DataLoader(data, batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
stored = torch.randn(64, WIDTH) / 8  # inputs by outputs, as other libraries store weights
model[0].weight.data = stored.clone().t()
optimizer = PlainSGD(model.parameters(), lr=LR)

for _ in range(5):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
moved = (model[0].weight - stored.t()).norm().item()
print(f"loss {loss.item():.3f}, the first weight moved by {moved:.3f}")
