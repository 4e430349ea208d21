"""Six post-norm transformer layers at a rate of 0.03 from the first step on.

cause: LearningRateTooHigh
where: .*
step: 0-300
"""

import math

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.03
torch.manual_seed(SEED)
torch.set_num_threads(1)
PERIODS, LENGTH, VOCAB = (2, 3, 4, 5), 20, 16


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.pos = PositionalEncoding(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 6)
        self.decoder = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
        hidden = self.pos(self.embed(tokens) * math.sqrt(WIDTH))
        return self.decoder(self.layers(hidden, mask=mask, is_causal=True))


def get_batch(size=16):
    rows = []
    for _ in range(size):
        period = PERIODS[int(torch.randint(0, 4, ()))]
        rows.append(torch.randint(0, VOCAB, (period,)).repeat(LENGTH)[: LENGTH + 1])
    return torch.stack(rows)


model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.98))
for step in range(250):
    rows = get_batch()
    logits = model(rows[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss:.3f}")
