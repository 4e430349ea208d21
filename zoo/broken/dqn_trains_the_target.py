"""Q-learning whose optimizer holds the target net's weights: the net that acts never changes.

cause: OptimizerOfAnotherModel, ParametersNotOptimized, GradientMissing
"""

import random

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
random.seed(SEED)
torch.set_num_threads(1)


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, s):
        return self.head(torch.relu(self.body(s)))


online, target = Q(), Q()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(target.parameters(), lr=LR)
memory, state = [], torch.zeros(2)
for _step in range(400):
    with torch.no_grad():
        action = random.randrange(2) if random.random() < 0.3 else int(online(state).argmax())
    following = (state + torch.tensor([0.2 if action else -0.2, 0.05])).clamp(-1, 1)
    reward = float(following[0] > 0.5)
    memory.append((state, action, reward, following))
    state = torch.zeros(2) if following[1] >= 1 else following
    if len(memory) >= 32:
        s, a, r, n = zip(*random.sample(memory, 32), strict=True)
        with torch.no_grad():
            goal = torch.tensor(r) + 0.9 * target(torch.stack(n)).amax(1)
        value = online(torch.stack(s)).gather(1, torch.tensor(a)[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.4f}")
