"""REINFORCE on a bandit with context: the loss wanders around zero while the reward rises.

looks like: SampleCutsGraph, PolicyGradientReversed
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

policy = nn.Sequential(nn.Linear(6, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=LR)
best = torch.randn(6, 4)
baseline = 0.0
for step in range(400):
    state = torch.randn(32, 6)
    choice = torch.distributions.Categorical(logits=policy(state))
    action = choice.sample()
    reward = (action == (state @ best).argmax(1)).float()
    loss = -(choice.log_prob(action) * (reward - baseline)).mean()
    baseline = 0.9 * baseline + 0.1 * reward.mean().item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(f"step {step} reward {baseline:.3f}")
