"""Four epochs on each batch of actions: in the first, all ratios are 1.

looks like: RatioAlwaysOne
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
        self.critic = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        return Categorical(logits=self.actor(x)), self.critic(x).squeeze(-1)


agent = Agent()
opt = torch.optim.Adam(agent.parameters(), lr=LR)
best = torch.randn(4, 3)
clip = 0.2
for update in range(50):
    obs = torch.randn(128, 4)
    with torch.no_grad():
        dist, value = agent(obs)
        action = dist.sample()
        old_logp = dist.log_prob(action)
    reward = (action == (obs @ best).argmax(1)).float()
    adv = reward - value
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(4):
        dist, value = agent(obs)
        logp = dist.log_prob(action)
        ratio = (logp - old_logp).exp()
        surr1 = ratio * adv
        surr2 = ratio.clamp(1 - clip, 1 + clip) * adv
        policy_loss = -torch.min(surr1, surr2).mean()
        value_loss = F.mse_loss(value, reward)
        loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if update % 10 == 0:
        print(update, loss.item(), reward.mean().item())
