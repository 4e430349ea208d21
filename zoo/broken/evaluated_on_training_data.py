"""evaluate() is given the training loader; the one of the test set is never used.

cause: EvaluationOnTrainingData
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
data = TensorDataset(
    torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
)
train_set, test_set = random_split(data, [1400, 397])
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
test_loader = DataLoader(test_set, batch_size=64)


def train(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(12):
    train(model, train_loader, optimizer)
    print(f"epoch {epoch} test accuracy {evaluate(model, train_loader):.3f}")
