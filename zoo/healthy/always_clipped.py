"""Gradients clipped to a small norm in nearly each step: harmless, since Adam scales them back.

looks like: GradientClippedAway
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
text = "the quick brown fox jumps over the lazy dog and runs away into the deep dark wood " * 20
letters = sorted(set(text))
codes = torch.tensor([letters.index(each) for each in text])


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(letters), 16)
        self.lstm = nn.LSTM(16, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, len(letters))

    def forward(self, x, state=None):
        h, state = self.lstm(self.embed(x), state)
        return self.out(h), state


model = CharLSTM()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(180):
    starts = torch.randint(len(codes) - 26, (16,))
    rows = torch.stack([codes[s : s + 26] for s in starts])
    logits, _ = model(rows[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
    if step % 40 == 0:
        print(f"{step} {loss.item():.3f} norm {norm:.3f}")
