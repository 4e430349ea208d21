"""Points and labels are permuted together in each epoch.

looks like: LabelsShuffledApart
"""

import numpy as np
import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 64, 3e-3
torch.set_num_threads(1)


np.random.seed(SEED)
torch.manual_seed(SEED)
centers = np.random.randn(5, 16) * 1.5
labels = np.random.randint(0, 5, 3000)
points = (centers[labels] + np.random.randn(3000, 16)).astype(np.float32)


def iterate(x, y, bs):
    order = np.random.permutation(len(x))
    x, y = x[order], y[order]
    for i in range(0, len(x), bs):
        yield torch.from_numpy(x[i : i + bs]), torch.from_numpy(y[i : i + bs])


net = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5))
opt = torch.optim.Adam(net.parameters(), lr=LR)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(8):
    losses = []
    for xb, yb in iterate(points[:2500], labels[:2500], 50):
        loss = loss_fn(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    with torch.no_grad():
        acc = (net(torch.from_numpy(points[2500:])).argmax(1).numpy() == labels[2500:]).mean()
    print(f"epoch {epoch}: loss {np.mean(losses):.4f} test acc {acc:.3f}")
