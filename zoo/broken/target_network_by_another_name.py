"""The target network of Q-learning is the network itself, by a second name.

cause: CopyNotMade
where: .*
step: 0
"""

import numpy as np
import torch
from torch import nn, optim

SEED, WIDTH, LR = 0, 48, 1e-3
torch.set_num_threads(1)


class QNet(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, act))

    def forward(self, x):
        return self.net(x)


class Agent:
    def __init__(self, obs=3, act=3, lr=LR, gamma=0.95, tau_every=100):
        self.policy_net = QNet(obs, act)
        self.target_net = self.policy_net
        self.target_net.eval()
        self.opt = optim.Adam(self.policy_net.parameters(), lr=lr)
        self.gamma, self.every, self.n = gamma, tau_every, 0

    def learn(self, s, a, r, s2, d):
        qsa = self.policy_net(s).gather(1, a.unsqueeze(1)).squeeze(1)
        nxt = self.target_net(s2).max(1).values
        loss = nn.functional.mse_loss(qsa, r + self.gamma * nxt * (1 - d))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.n += 1
        if self.n % self.every == 0:
            self.target_net.load_state_dict(self.policy_net.state_dict())
        return loss.item()


rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)
# a point in the plane to be steered to zero
S = rng.uniform(-1, 1, (5000, 3)).astype("float32")
A = rng.integers(0, 3, 5000)
S2 = (S + 0.2 * (A[:, None] - 1) * np.sign(S) * -1).astype("float32")
R = -np.abs(S2).sum(1).astype("float32")
D = (np.abs(S2).sum(1) < 0.3).astype("float32")
agent = Agent()
for step in range(600):
    i = rng.integers(0, 5000, 64)
    loss = agent.learn(*(torch.from_numpy(z[i]) for z in (S, A, R, S2, D)))
    if step % 100 == 0:
        print("step", step, "td loss", loss)
