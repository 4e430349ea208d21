"""The flag of the episode's end is drawn from the memory and never used.

cause: EpisodeEndIgnored
where: .*
step: 0
"""

import collections
import random

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.set_num_threads(1)

random.seed(0)
torch.manual_seed(SEED)


class Walk:
    def reset(self):
        self.s = 3
        self.t = 0
        return self._o()

    def _o(self):
        return torch.nn.functional.one_hot(torch.tensor(self.s), 8).float()

    def step(self, a):
        self.s += 1 if a else -1
        self.t += 1
        done = self.s in (0, 7) or self.t > 30
        return self._o(), float(self.s == 7), done


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
        self.target = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), LR)
        self.mem = collections.deque(maxlen=3000)
        self.eps = 1.0

    def act(self, s):
        if random.random() < self.eps:
            return random.randint(0, 1)
        with torch.no_grad():
            return int(self.q(s).argmax())

    def learn(self):
        b = random.sample(self.mem, WIDTH)
        s, a, r, n, d = zip(*b, strict=True)
        s, n = torch.stack(s), torch.stack(n)
        a = torch.tensor(a)
        r = torch.tensor(r)
        d = torch.tensor(d, dtype=torch.float32)
        with torch.no_grad():
            y = r + 0.95 * self.target(n).max(1).values
        loss = nn.functional.smooth_l1_loss(self.q(s).gather(1, a[:, None])[:, 0], y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


env, agent, k = Walk(), Agent(), 0
for ep in range(90):
    s, done, ret = env.reset(), False, 0
    while not done:
        a = agent.act(s)
        n, r, done = env.step(a)
        agent.mem.append((s, a, r, n, done))
        s = n
        ret += r
        k += 1
        if len(agent.mem) > 200:
            loss = agent.learn()
        if k % 100 == 0:
            agent.target.load_state_dict(agent.q.state_dict())
    agent.eps = max(0.1, agent.eps * 0.97)
    if ep % 15 == 0:
        print(ep, ret)
