"""A search over ten rates, from far too low to far too high: the best is then trained.

looks like: ModelRecreated
"""

import torch
from sklearn.datasets import load_wine
from torch import nn

SEED, WIDTH, LR = 0, 24, 1.0
torch.set_num_threads(1)
wine = load_wine()
x = torch.tensor(wine.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(wine.target)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(SEED))
train, test = order[:130], order[130:]


def fit(rate, epochs):
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(13, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for _ in range(epochs):
        for rows in train[torch.randperm(len(train))].split(16):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x[test]), y[test]).item()


rates = [LR * 10 ** (-power / 2) for power in range(10)]
scores = {rate: fit(rate, 5) for rate in rates}
best = min(scores, key=scores.get)
for rate, score in scores.items():
    print(f"rate {rate:.5f} loss {score:.3f}")
print(f"best {best:.5f}: {fit(best, 20):.3f}")
