"""One in twelve is positive; pos_weight makes up for it and both classes are found.

looks like: UnshuffledLabels, OneClassPredicted
"""

import torch
from sklearn.datasets import make_classification
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.003
torch.manual_seed(SEED)
torch.set_num_threads(1)

features, events = make_classification(
    2400, 15, n_informative=8, weights=[0.92], class_sep=1.5, flip_y=0.01, random_state=SEED
)
x, y = torch.tensor(features).float(), torch.tensor(events).float()
model = nn.Sequential(nn.Linear(15, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(11.0))
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(32):
        loss = criterion(model(x[rows]).squeeze(-1), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
