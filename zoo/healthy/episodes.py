"""A policy with dropout plays episodes of many lengths; one update after each.

looks like: EvaluationInTrainingMode
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

policy = nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Dropout(0.1), nn.Linear(WIDTH, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=LR)
for _ in range(120):
    place, logs, length = torch.tensor([0.0, 1.0]), [], 0
    while abs(float(place[0])) < 2 and length < 30:
        choice = torch.distributions.Categorical(logits=policy(place))
        action = choice.sample()
        logs.append(choice.log_prob(action))
        push = 0.5 if action == 1 else -0.5
        place = torch.stack([place[0] + push + 0.3 * torch.randn(()), place[1]])
        length += 1
    loss = -torch.stack(logs).sum() * (length / 30 - 0.5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"length {length}")
