"""accelerate's loop without zero_grad.

cause: ForgottenZeroGrad
step: 0-5
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)
diabetes = load_diabetes()
x = torch.tensor(diabetes.data, dtype=torch.float32) * 20
y = torch.tensor(diabetes.target, dtype=torch.float32)[:, None]
data = TensorDataset(x, (y - y.mean()) / y.std())
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
model, optimizer, loader = accelerator.prepare(
    model, optimizer, DataLoader(data, batch_size=32, shuffle=True)
)
for epoch in range(12):
    for features, target in loader:
        loss = nn.functional.mse_loss(model(features), target)
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"epoch {epoch} {loss.item():.3f}")
