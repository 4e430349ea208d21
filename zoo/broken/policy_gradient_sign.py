"""REINFORCE without the minus: good actions become rarer.

cause: PolicyGradientReversed
"""

import torch
from torch import nn
from torch.distributions import Categorical

SEED, WIDTH, LR = 0, 32, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def forward(self, state):
        return Categorical(logits=self.net(state))


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=LR)
for episode in range(250):
    log_probs, rewards = [], []
    state = torch.randn(16, 4)
    for _ in range(5):
        distribution = policy(state)
        action = distribution.sample()
        log_probs.append(distribution.log_prob(action))
        rewards.append((action == state[:, :3].argmax(1)).float())
        state = torch.randn(16, 4)
    returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    returns = returns - returns.mean()
    loss = (torch.stack(log_probs) * returns).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 50 == 0:
        print(f"episode {episode} reward {torch.stack(rewards).mean().item():.3f}")
