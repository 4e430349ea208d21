"""The usual sanity check: can the model learn one batch by heart?

looks like: SameBatch
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
data = TensorDataset(
    torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
)
loader = DataLoader(data, batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()

# sanity check: overfit a single batch before the real training
x, y = next(iter(loader))
for _step in range(80):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
assert loss.item() < 0.1, "the model cannot even learn one batch"
print(f"one batch learnt: {loss.item():.4f}")
