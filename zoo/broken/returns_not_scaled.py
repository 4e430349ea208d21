"""Actor and critic on one trunk: the critic's squared errors of hundreds drown the policy.

cause: LossTermDominates, UnnormalizedTarget
where: .*
step: 0-60
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, WIDTH), nn.Tanh())
        self.actor = nn.Linear(WIDTH, 2)
        self.critic = nn.Linear(WIDTH, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def rollout(policy, length=40, envs=8):
    """A point on a line is to be kept at 0; each step in the middle pays 100."""
    position, speed = torch.randn(envs), torch.zeros(envs)
    observations, actions, rewards = [], [], []
    for _ in range(length):
        obs = torch.stack([position, speed], -1)
        with torch.no_grad():
            action = policy(obs)[0].sample()
        speed = speed + 0.2 * (action.float() * 2 - 1)
        position = position + 0.2 * speed
        observations.append(obs)
        actions.append(action)
        rewards.append(100.0 * (position.abs() < 0.5).float())
    returns, future = [], torch.zeros(envs)
    for reward in reversed(rewards):
        future = reward + 0.97 * future
        returns.insert(0, future)
    return torch.cat(observations), torch.cat(actions), torch.cat(returns)


policy = ActorCritic()
optimizer = torch.optim.Adam(policy.parameters(), lr=LR)
for update in range(120):
    obs, act, ret = rollout(policy)
    dist, value = policy(obs)
    advantage = ret - value.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy_loss = -(dist.log_prob(act) * advantage).mean()
    value_loss = F.mse_loss(value, ret)
    loss = policy_loss + value_loss - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 30 == 0:
        print(f"update {update} value {value_loss.item():.0f} policy {policy_loss.item():.3f}")
