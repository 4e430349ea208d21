"""An entropy by the script's own arithmetic is added to the loss: the policy stops searching.

cause: EntropyLowered
where: .*
step: 0-900
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 6, 48, 2e-3
torch.manual_seed(SEED)


class ActorCritic(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(inputs, WIDTH), nn.Tanh())
        self.policy, self.value = nn.Linear(WIDTH, actions), nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.base(x)
        return self.policy(h), self.value(h).squeeze(-1)


truth = torch.randn(6, 9)
net = ActorCritic(6, 9)
opt = torch.optim.RMSprop(net.parameters(), lr=LR)
average = 0.0
for update in range(900):
    obs = torch.randn(32, 6)
    logits, value = net(obs)
    probs, log_probs = F.softmax(logits, dim=-1), F.log_softmax(logits, dim=-1)
    action = torch.multinomial(probs.detach(), 1).squeeze(1)
    best = (obs @ truth).argmax(1)
    reward = torch.maximum((action == best).float(), 0.35 * (action == 0).float())
    advantage = reward - value
    policy_loss = -(log_probs[range(32), action] * advantage.detach()).mean()
    entropy = -(probs * log_probs).sum(-1).mean()
    loss = policy_loss + 0.5 * advantage.pow(2).mean() + 0.1 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
    average += 0.02 * (reward.mean().item() - average)
    if update % 50 == 0:
        print(update, loss.item(), average, entropy.item())
