"""Q-learning with replay and a target net: the loss grows with the values that are learnt."""

import copy
import random
from collections import deque

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 1e-3
torch.manual_seed(SEED)
random.seed(SEED)
torch.set_num_threads(1)
LENGTH = 8


class Corridor:
    def reset(self):
        self.at, self.time = 0, 0
        return self.state()

    def state(self):
        return torch.eye(LENGTH)[self.at]

    def step(self, action):
        self.at = max(0, min(LENGTH - 1, self.at + (1 if action == 1 else -1)))
        self.time += 1
        done = self.at == LENGTH - 1 or self.time >= 40
        return self.state(), 10.0 if self.at == LENGTH - 1 else -0.1, done


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(LENGTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, s):
        return self.fc2(torch.relu(self.fc1(s)))


q = QNet()
target = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters(), lr=LR)
memory, env, steps = deque(maxlen=2000), Corridor(), 0
for _episode in range(60):
    state, done, total = env.reset(), False, 0.0
    while not done:
        epsilon = max(0.1, 1 - steps / 500)
        if random.random() < epsilon:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = int(q(state[None]).argmax())
        following, reward, done = env.step(action)
        memory.append((state, action, reward, following, float(done)))
        state, total, steps = following, total + reward, steps + 1
        if len(memory) < 64:
            continue
        s, a, r, n, d = zip(*random.sample(memory, 32), strict=True)
        s, n, a = torch.stack(s), torch.stack(n), torch.tensor(a)
        r, d = torch.tensor(r), torch.tensor(d)
        with torch.no_grad():
            goal = r + 0.95 * (1 - d) * target(n).max(1).values
        value = q(s).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q.parameters(), 10)
        optimizer.step()
        if steps % 100 == 0:
            target.load_state_dict(q.state_dict())
print(f"return {total:.2f}")
