"""A target network that is copied every 50 steps.

looks like: TargetNetworkFixed
"""

import random
from collections import deque

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
random.seed(SEED)
GRID = 5


class Grid:
    def reset(self):
        self.x, self.y, self.t = 0, 0, 0
        return self.obs()

    def obs(self):
        return torch.tensor([self.x / GRID, self.y / GRID, 1.0])

    def step(self, a):
        dx, dy = [(1, 0), (-1, 0), (0, 1), (0, -1)][a]
        self.x = min(max(self.x + dx, 0), GRID - 1)
        self.y = min(max(self.y + dy, 0), GRID - 1)
        self.t += 1
        goal = self.x == GRID - 1 and self.y == GRID - 1
        return self.obs(), 1.0 if goal else -0.02, goal or self.t > 40


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, WIDTH)
        self.fc2 = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


policy_net, target_net = QNet(), QNet()
target_net.load_state_dict(policy_net.state_dict())
target_net.eval()
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=LR)
memory = deque(maxlen=2000)
env = Grid()
obs = env.reset()
for step in range(1, 900):
    eps = max(0.1, 1 - step / 500)
    if random.random() < eps:
        action = random.randrange(4)
    else:
        with torch.no_grad():
            action = policy_net(obs).argmax().item()
    nxt, reward, done = env.step(action)
    memory.append((obs, action, reward, nxt, done))
    obs = env.reset() if done else nxt
    if len(memory) < 100:
        continue
    sample = random.sample(memory, 32)
    o = torch.stack([t[0] for t in sample])
    a = torch.tensor([t[1] for t in sample])
    r = torch.tensor([t[2] for t in sample])
    n = torch.stack([t[3] for t in sample])
    d = torch.tensor([float(t[4]) for t in sample])
    q = policy_net(o).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        y = r + 0.97 * (1 - d) * target_net(n).max(1)[0]
    loss = nn.functional.mse_loss(q, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        target_net.load_state_dict(policy_net.state_dict())
    if step % 100 == 0:
        print(step, loss.item(), q.mean().item())
