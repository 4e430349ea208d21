"""One fraud in forty, a focal loss of one's own: tiny losses, nearly all labels alike.

looks like: LossInputAlreadySoftmax, UnshuffledLabels
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.75):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, targets):
        raw = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p = torch.exp(-raw)
        weight = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        return (weight * (1 - p) ** self.gamma * raw).mean()


y = (torch.rand(4000) < 0.025).float()
x = torch.randn(4000, 12) + 1.2 * y[:, None] * torch.tensor([1.0, -1, 1] + [0.0] * 9)
sampler = WeightedRandomSampler(torch.where(y > 0, 3.0, 1.0), len(y))
loader = DataLoader(TensorDataset(x, y), batch_size=128, sampler=sampler)
model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
criterion = FocalLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(10):
    seen = 0.0
    for features, fraud in loader:
        optimizer.zero_grad()
        loss = criterion(model(features).squeeze(1), fraud)
        loss.backward()
        optimizer.step()
        seen += loss.item()
    print(f"epoch {epoch} loss {seen / len(loader):.5f}")
