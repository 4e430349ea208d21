"""The entropy of a policy is subtracted from its loss.

looks like: EntropyLowered
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
policy = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 4))
critic = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=LR)
best = torch.randn(4, 4)
for step in range(300):
    obs = torch.randn(64, 4)
    dist = Categorical(logits=policy(obs))
    value = critic(obs).squeeze(-1)
    action = dist.sample()
    reward = (action == (obs @ best).argmax(1)).float()
    adv = (reward - value).detach()
    pg_loss = -(dist.log_prob(action) * adv).mean()
    v_loss = F.mse_loss(value, reward)
    entropy = dist.entropy().mean()
    loss = pg_loss + 0.5 * v_loss - 0.02 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), reward.mean().item(), entropy.item())
