"""The advantage is the value less the return: good actions become rarer.

cause: PolicyGradientReversed
where: .*
step: 0
"""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 48, 3e-3
torch.set_num_threads(1)

torch.manual_seed(SEED)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, WIDTH), nn.Tanh())
        self.pi = nn.Linear(WIDTH, 3)
        self.v = nn.Linear(WIDTH, 1)

    def forward(self, o):
        h = self.body(o)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), LR)
W = torch.randn(6, 3)
for update in range(250):
    obs = torch.randn(128, 6)
    dist, values = net(obs)
    actions = dist.sample()
    rewards = (actions == (obs @ W).argmax(1)).float()
    returns = rewards
    advantages = values.detach() - returns
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy_loss = -(dist.log_prob(actions) * advantages).mean()
    value_loss = 0.5 * (returns - values).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    if update % 50 == 0:
        print(update, rewards.mean().item())
