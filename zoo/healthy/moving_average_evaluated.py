"""Weights averaged by hand and evaluated every ten steps; SWA and its batch norm last."""

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 48, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=64, shuffle=True)
net = nn.Sequential(nn.Linear(64, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
ema = copy.deepcopy(net).requires_grad_(False)
swa = AveragedModel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
schedule = SWALR(optimizer, swa_lr=LR / 2, anneal_epochs=3)
step = 0
for epoch in range(12):
    for batch, target in loader:
        loss = nn.functional.cross_entropy(net(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(
                ema.state_dict().values(), net.state_dict().values(), strict=True
            ):
                slow.copy_(0.98 * slow + 0.02 * fast if slow.is_floating_point() else fast)
        if step % 10 == 0:
            ema.eval()
            with torch.no_grad():
                held = nn.functional.cross_entropy(ema(x[1500:]), y[1500:]).item()
        step += 1
    if epoch >= 6:
        swa.update_parameters(net)
        schedule.step()
update_bn(loader, swa)
print(f"moving average {held:.3f}")
