"""The old log probabilities are those of the rollout, for each part of a batch.

looks like: RatioAlwaysOne
"""

import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical

SEED, WIDTH, LR = 0, 64, 0.0003
torch.set_num_threads(1)


class ActorCritic(nn.Module):
    def __init__(self, obs=6, acts=4):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, acts))
        self.v = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x):
        return Categorical(logits=self.pi(x)), self.v(x).squeeze(-1)


class ContextualChain:
    def __init__(self, n_envs, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.n = n_envs
        self.w = torch.randn(6, 4, generator=self.g)
        self.s = torch.randn(n_envs, 6, generator=self.g)

    def step(self, a):
        best = (self.s @ self.w).argmax(1)
        r = (a == best).float()
        self.s = 0.7 * self.s + 0.7 * torch.randn(self.n, 6, generator=self.g)
        return self.s, r


@torch.no_grad()
def rollout(env, model, horizon):
    S, A, R, LP, V = [], [], [], [], []
    s = env.s
    for _ in range(horizon):
        dist, v = model(s)
        a = dist.sample()
        s2, r = env.step(a)
        S.append(s), A.append(a), R.append(r), LP.append(dist.log_prob(a)), V.append(v)
        s = s2
    _, last = model(s)
    return torch.stack(S), torch.stack(A), torch.stack(R), torch.stack(LP), torch.stack(V), last


def gae(R, V, last, gamma=0.9, lam=0.95):
    adv, run = torch.zeros_like(R), 0.0
    nxt = last
    for t in reversed(range(len(R))):
        delta = R[t] + gamma * nxt - V[t]
        run = delta + gamma * lam * run
        adv[t], nxt = run, V[t]
    return adv, adv + V


def update(model, opt, batch, epochs, clip):
    S, A, LP, ADV, RET = batch
    for _ in range(epochs):
        for idx in torch.randperm(len(S)).split(128):
            dist, v = model(S[idx])
            logp = dist.log_prob(A[idx])
            old = LP[idx]
            ratio = torch.exp(logp - old)
            adv = (ADV[idx] - ADV[idx].mean()) / (ADV[idx].std() + 1e-8)
            surr = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
            loss = -surr.mean() + 0.5 * (v - RET[idx]).pow(2).mean() - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
    return loss.item()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=40)
    p.add_argument("--clip", type=float, default=0.2)
    a = p.parse_args()
    torch.manual_seed(SEED)
    env, model = ContextualChain(16, 0), ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    for it in range(a.iters):
        S, A, R, LP, V, last = rollout(env, model, 32)
        adv, ret = gae(R, V, last)
        loss = update(
            model,
            opt,
            (S.flatten(0, 1), A.flatten(), LP.flatten(), adv.flatten(), ret.flatten()),
            4,
            a.clip,
        )
        if it % 5 == 0:
            print(f"iter {it} reward {R.mean():.3f} loss {loss:.3f}")
