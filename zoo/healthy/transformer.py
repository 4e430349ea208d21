"""A small transformer learns to continue a sequence."""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(24, WIDTH)
        self.place = nn.Embedding(16, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(WIDTH, 24)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        hidden = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.out(self.blocks(hidden, mask=mask, is_causal=True))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)

for _ in range(200):
    start, pace = torch.randint(0, 24, (16, 1)), torch.randint(1, 4, (16, 1))
    tokens = (start + pace * torch.arange(17)) % 24
    optimizer.zero_grad()
    scores = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
