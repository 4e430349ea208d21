"""Actor and critic: the critic's value is detached in its own loss, so that it never learns.

cause: GradientMissing
where: value
step: 0-10
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh())
        self.policy = nn.Linear(WIDTH, 3)
        self.value = nn.Linear(WIDTH, 1)

    def forward(self, state):
        hidden = self.body(state)
        return torch.distributions.Categorical(logits=self.policy(hidden)), self.value(hidden)


model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for _ in range(300):
    state = torch.randn(64, 4)
    policy, value = model(state)
    value = value.squeeze(1).detach()
    action = policy.sample()
    reward = (action == state[:, :3].argmax(1)).float()
    policy_loss = -(policy.log_prob(action) * (reward - value)).mean()
    value_loss = nn.functional.mse_loss(value, reward)
    loss = policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"reward {reward.mean().item():.3f}")
