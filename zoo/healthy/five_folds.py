"""Cross-validation: model and optimizer are made anew for each fold, and the loss begins anew.

looks like: ModelRecreated, OptimizerRecreated
"""

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale
from torch import nn

SEED, WIDTH, LR = 0, 24, 0.01
torch.manual_seed(SEED)
torch.set_num_threads(1)

X, labels = load_wine(return_X_y=True)
X, labels = torch.tensor(scale(X)).float(), torch.tensor(labels)
scores = []
for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=SEED).split(X)):
    model = nn.Sequential(nn.Linear(13, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for _epoch in range(12):
        for rows in torch.tensor(train)[torch.randperm(len(train))].split(16):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(X[rows]), labels[rows])
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        scores.append((model(X[test]).argmax(1) == labels[test]).float().mean().item())
    print(f"fold {fold}: {scores[-1]:.3f}")
