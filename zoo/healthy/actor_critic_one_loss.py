"""An actor and a critic with one loss; the advantage is detached.

looks like: AdvantageTrained
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh())
        self.actor = nn.Linear(WIDTH, 3)
        self.critic = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.body(x)
        return self.actor(h), self.critic(h).squeeze(-1)


net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=LR)
best = torch.randn(4, 3)
for step in range(300):
    obs = torch.randn(64, 4)
    logits, value = net(obs)
    dist = Categorical(logits=logits)
    action = dist.sample()
    reward = (action == (obs @ best).argmax(1)).float() + 0.1 * torch.randn(64)
    advantage = reward - value.detach()
    policy_loss = -(dist.log_prob(action) * advantage).mean()
    value_loss = F.mse_loss(value, reward)
    loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), reward.mean().item())
