"""Four fifths of each text are padding, masked in attention and in the mean; five layers.

looks like: PaddingMaskInverted
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
PAD, VOCAB, LONGEST = 0, 100, 40


class TextTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(LONGEST, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=5, enable_nested_tensor=False)
        self.classifier = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3))

    def forward(self, tokens):
        padding = tokens == PAD
        hidden = self.encoder(self.embedding(tokens) + self.pos, src_key_padding_mask=padding)
        real = (~padding).unsqueeze(-1)
        return self.classifier((hidden * real).sum(1) / real.sum(1))


def sample(count):
    labels = torch.randint(0, 3, (count,))
    tokens = torch.randint(10, VOCAB, (count, LONGEST))
    lengths = torch.randint(5, 12, (count,))
    for row in range(count):
        spots = torch.randperm(int(lengths[row]))[:3]
        tokens[row, spots] = 2 + 2 * labels[row] + torch.randint(0, 2, (3,))
        tokens[row, lengths[row] :] = PAD
    return tokens, labels


tokens, labels = sample(640)
model = TextTransformer()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(4):
    for batch in torch.randperm(len(tokens)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
