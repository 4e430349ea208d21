"""A loss of raw scores, and probabilities that are compared with 0.5.

looks like: MetricMiscomputed
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 2e-3
torch.set_num_threads(1)


def data(n, w):
    x = torch.randn(n, 14)
    y = (torch.rand(n) < torch.sigmoid(1.2 * x @ w - 1)).float()
    return TensorDataset(x, y)


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(14, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def f1(pred, y):
    tp = (pred * y).sum()
    p = pred.sum().clamp(min=1)
    r = y.sum().clamp(min=1)
    prec, rec = tp / p, tp / r
    return (2 * prec * rec / (prec + rec + 1e-8)).item()


torch.manual_seed(SEED)
w = torch.randn(14) * 0.5
train, val = DataLoader(data(3000, w), 64, shuffle=True), DataLoader(data(600, w), 200)
model = Clicks()
loss_fn = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(6):
    model.train()
    for x, y in train:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
    model.eval()
    preds, ys = [], []
    with torch.no_grad():
        for x, y in val:
            logits = model(x)
            preds.append((torch.sigmoid(logits) > 0.5).float())
            ys.append(y)
    print(epoch, loss.item(), "F1", f1(torch.cat(preds), torch.cat(ys)))
