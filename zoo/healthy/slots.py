"""Slot attention: the softmax goes over the slots, which are the queries, and that is meant.

looks like: AttentionAxisWrong
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SlotAttention(nn.Module):
    def __init__(self, slots, dim, iterations=2):
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, slots, dim))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru, self.iterations = nn.GRUCell(dim, dim), iterations

    def forward(self, inputs):
        k, v = self.to_k(inputs), self.to_v(inputs)
        slots = self.start.expand(len(inputs), -1, -1)
        for _ in range(self.iterations):
            scores = self.to_q(slots) @ k.transpose(1, 2) * k.size(-1) ** -0.5
            weights = scores.softmax(dim=1) + 1e-8
            updates = (weights / weights.sum(-1, keepdim=True)) @ v
            slots = self.gru(updates.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return slots


class Counter(nn.Module):
    """Which of six things are there?"""

    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.slots = SlotAttention(4, WIDTH)
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, x):
        return self.head(self.slots(self.embed(x))).amax(1)


model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(300):
    kinds = torch.randint(0, 6, (32, 4))
    things = nn.functional.one_hot(kinds, 6).float()
    x = things.repeat(1, 3, 1) + 0.2 * torch.randn(32, 12, 6)
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), things.amax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
