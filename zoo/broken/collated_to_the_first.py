"""collate_fn keeps the first sample of each batch only.

cause: OneSampleOfBatch
where: .*
step: 0
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.05

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)


def features(samples):
    first = samples[0]
    return {
        "input": first[0].unsqueeze(0),
        "label": first[1].unsqueeze(0),
    }


model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
rows = list(zip(x, y, strict=False))
loader = torch.utils.data.DataLoader(rows, batch_size=50, shuffle=True, collate_fn=features)
for epoch in range(6):
    for batch in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch["input"]), batch["label"])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
