"""A mixture density network: the negative log-likelihood goes below zero and further down.

looks like: LossWithoutBound
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class MDN(nn.Module):
    def __init__(self, parts=4):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh())
        self.pi, self.mu = nn.Linear(WIDTH, parts), nn.Linear(WIDTH, parts)
        self.log_sigma = nn.Linear(WIDTH, parts)

    def forward(self, x):
        h = self.hidden(x)
        return self.pi(h).log_softmax(1), self.mu(h), self.log_sigma(h)


def nll(model, x, y):
    log_pi, mu, log_sigma = model(x)
    each = -0.5 * ((y - mu) / log_sigma.exp()) ** 2 - log_sigma - 0.919
    return -torch.logsumexp(log_pi + each, 1).mean()


model = MDN()
optimizer = torch.optim.RMSprop(model.parameters(), lr=LR)
for step in range(600):
    x = torch.rand(128, 1) * 2 - 1
    side = torch.randint(2, x.shape) * 2 - 1
    y = side * (0.3 + 0.2 * x) + 0.01 * torch.randn_like(x)
    loss = nll(model, x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"{step:4d} {loss.item():+.3f}")
