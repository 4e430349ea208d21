"""Matrix factorisation with a sigmoid at its end, for ratings of one to five stars.

cause: OutputRangeTooNarrow
where: .*
step: 0-40
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 8, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)
USERS, ITEMS = 200, 120

taste, kind = torch.randn(USERS, 3), torch.randn(ITEMS, 3)
user = torch.randint(0, USERS, (6000,))
item = torch.randint(0, ITEMS, (6000,))
stars = (3 + (taste[user] * kind[item]).sum(1)).round().clamp(1, 5)


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, n_factors):
        super().__init__()
        self.user_factors = nn.Embedding(n_users, n_factors)
        self.item_factors = nn.Embedding(n_items, n_factors)
        self.user_bias = nn.Embedding(n_users, 1)
        self.item_bias = nn.Embedding(n_items, 1)

    def forward(self, u, i):
        dot = (self.user_factors(u) * self.item_factors(i)).sum(1, keepdim=True)
        return torch.sigmoid(dot + self.user_bias(u) + self.item_bias(i)).squeeze(1)


model = MatrixFactorization(USERS, ITEMS, WIDTH)
optimizer = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=1e-5)
loss_func = torch.nn.MSELoss()
for epoch in range(5):
    for idx in torch.randperm(6000).split(100):
        optimizer.zero_grad()
        loss = loss_func(model(user[idx], item[idx]), stars[idx])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1} rmse {loss.item() ** 0.5:.3f}")
