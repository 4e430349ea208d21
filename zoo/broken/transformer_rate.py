"""A small transformer language model at a learning rate a hundred times too high.

cause: LearningRateTooHigh
where: .*
step: 0-30
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.3
torch.manual_seed(SEED)
torch.set_num_threads(1)

text = "the quick brown fox jumps over the lazy dog and runs away from the big bad wolf. " * 40
letters = sorted(set(text))
data = torch.tensor([letters.index(c) for c in text])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(len(letters), WIDTH)
        self.place = nn.Embedding(24, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, len(letters))

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(24)
        hidden = self.token(tokens) + self.place(torch.arange(24))
        return self.head(self.encoder(hidden, mask=mask, is_causal=True))


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for _ in range(200):
    starts = torch.randint(0, len(data) - 25, (16,))
    batch = torch.stack([data[s : s + 25] for s in starts])
    scores = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
