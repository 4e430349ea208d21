"""Clipped policy optimisation on a reaching task of its own: several epochs over each rollout."""

import torch
from torch import nn
from torch.distributions import Normal

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        self.actor = nn.Sequential(nn.Linear(2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def act(self, state):
        return Normal(self.actor(state), self.log_std.exp())


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=LR, eps=1e-5)
for iteration in range(25):
    states, actions, logps, rewards = [], [], [], []
    state = torch.randn(32, 2)
    with torch.no_grad():
        for _ in range(8):
            dist = agent.act(state)
            action = dist.sample()
            states.append(state)
            actions.append(action)
            logps.append(dist.log_prob(action))
            speed = state[:, 1:] + 0.3 * action.clamp(-2, 2)
            state = torch.cat([state[:, :1] + 0.3 * speed, speed], 1)
            rewards.append(-(state**2).sum(1, keepdim=True).clamp(max=10))
        returns, running = [], torch.zeros(32, 1)
        for reward in reversed(rewards):
            running = reward + 0.9 * running
            returns.insert(0, running)
    s, a = torch.cat(states), torch.cat(actions)
    old, ret = torch.cat(logps), torch.cat(returns)
    with torch.no_grad():
        adv = ret - agent.critic(s)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(4):
        for idx in torch.randperm(len(s)).split(64):
            dist = agent.act(s[idx])
            ratio = (dist.log_prob(a[idx]) - old[idx]).exp()
            clipped = ratio.clamp(0.8, 1.2)
            pg_loss = -torch.min(ratio * adv[idx], clipped * adv[idx]).mean()
            v_loss = (agent.critic(s[idx]) - ret[idx]).pow(2).mean()
            loss = pg_loss + 0.5 * v_loss - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    if iteration % 5 == 0:
        print(f"iteration {iteration} return {ret.mean().item():.3f}")
