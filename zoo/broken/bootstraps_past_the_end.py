"""Targets of Q-learning contain the value of the state after the last one.

cause: EpisodeEndIgnored
where: .*
step: 0-400
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
random.seed(SEED)
N, GAMMA = 8, 0.99


def one_hot(s):
    v = torch.zeros(N)
    v[s] = 1.0
    return v


class Chain:
    def reset(self):
        self.s, self.t = 0, 0
        return one_hot(self.s)

    def step(self, a):
        self.t += 1
        self.s = min(self.s + 1, N - 1) if a == 1 else max(self.s - 1, 0)
        done = self.s == N - 1 or self.t >= 30
        return one_hot(self.s), (1.0 if self.s == N - 1 else -0.01), done


def make():
    return nn.Sequential(nn.Linear(N, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))


q, target_q = make(), make()
target_q.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=LR)
env, buffer = Chain(), []
state = env.reset()
for step in range(900):
    if random.random() < 0.3:
        a = random.randrange(2)
    else:
        with torch.no_grad():
            a = q(state).argmax().item()
    nxt, r, done = env.step(a)
    buffer.append((state, a, r, nxt, float(done)))
    state = env.reset() if done else nxt
    if len(buffer) < 64:
        continue
    batch = random.sample(buffer, 32)
    s, act, rew, s2, d = zip(*batch, strict=True)
    s, s2 = torch.stack(s), torch.stack(s2)
    act, rew, d = torch.tensor(act), torch.tensor(rew), torch.tensor(d)
    with torch.no_grad():
        target = rew + GAMMA * target_q(s2).max(1).values
    value = q(s).gather(1, act[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(value, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        target_q.load_state_dict(q.state_dict())
    if step % 100 == 0:
        print(step, loss.item(), value.mean().item())
