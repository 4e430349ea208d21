"""Two models with an optimizer each; the second's rate was typed 1e-30.

cause: LearningRateZero, LearningRateTooLow
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
users = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))
items = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))
optimizers = {
    "users": torch.optim.Adam(users.parameters(), lr=LR),
    "items": torch.optim.Adam(items.parameters(), lr=LR * 1e-27),
}
truth = torch.randn(8, 6)
for _step in range(300):
    user, item = torch.randn(64, 8), torch.randn(64, 6)
    rating = (user @ truth * item).sum(1) / 7
    guess = (users(user) * items(item)).sum(1)
    loss = nn.functional.mse_loss(guess, rating)
    for optimizer in optimizers.values():
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers.values():
        optimizer.step()
print(f"loss {loss.item():.3f}")
