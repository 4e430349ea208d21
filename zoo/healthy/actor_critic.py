"""Actor and critic with an entropy bonus: the sum of losses goes up and down and below zero."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

SEED, WIDTH, LR = 0, 32, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(2, WIDTH)
        self.action_head = nn.Linear(WIDTH, 2)
        self.value_head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
average = 0.0
for episode in range(120):
    position, speed = torch.randn(()), torch.zeros(())
    log_probs, values, rewards, entropies = [], [], [], []
    for _ in range(25):
        probs, value = model(torch.stack([position, speed]))
        m = Categorical(probs)
        action = m.sample()
        speed = 0.9 * speed + 0.2 * (action.float() * 2 - 1)
        position = position + 0.2 * speed
        log_probs.append(m.log_prob(action))
        entropies.append(m.entropy())
        values.append(value.squeeze())
        rewards.append(-abs(position.item()))
    returns, future = [], 0.0
    for reward in rewards[::-1]:
        future = reward + 0.95 * future
        returns.insert(0, future)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    policy_losses = [
        -p * (r - v.item()) for p, r, v in zip(log_probs, returns, values, strict=True)
    ]
    value_losses = [F.smooth_l1_loss(v, r) for v, r in zip(values, returns, strict=True)]
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss = loss - 0.01 * torch.stack(entropies).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average = 0.95 * average + 0.05 * sum(rewards)
    if episode % 20 == 0:
        print(f"episode {episode} reward {sum(rewards):.2f} average {average:.2f}")
