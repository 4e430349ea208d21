"""OneCycleLR stepped with each batch: the rate starts and ends at next to nothing.

looks like: ScheduleInOtherUnits, LearningRateZero
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)

model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
EPOCHS, BATCHES = 10, 30
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=LR, epochs=EPOCHS, steps_per_epoch=BATCHES
)
for epoch in range(EPOCHS):
    model.train()
    for _ in range(BATCHES):
        rows = torch.randint(0, 1500, (50,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        test = nn.functional.cross_entropy(model(x[1500:]), y[1500:]).item()
    print(f"epoch {epoch} lr {scheduler.get_last_lr()[0]:.2e} test {test:.3f}")
