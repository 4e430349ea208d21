"""src_key_padding_mask is True for the words instead of for the padding: only padding is read.

cause: PaddingMaskInverted
where: .*
step: 0-300
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
PAD, VOCAB, LONGEST = 0, 100, 20


class TextTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(LONGEST, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.classifier = nn.Linear(WIDTH, 3)

    def forward(self, tokens):
        mask = tokens != PAD
        hidden = self.encoder(self.embedding(tokens) + self.pos, src_key_padding_mask=mask)
        return self.classifier(hidden[:, 0])  # the [CLS] token


def sample(count):
    labels = torch.randint(0, 3, (count,))
    tokens = torch.randint(10, VOCAB, (count, LONGEST))
    lengths = torch.randint(8, LONGEST - 2, (count,))
    for row in range(count):
        spots = torch.randperm(int(lengths[row]) - 1)[:3] + 1
        tokens[row, spots] = 2 + 2 * labels[row] + torch.randint(0, 2, (3,))
        tokens[row, lengths[row] :] = PAD
    tokens[:, 0] = 1
    return tokens, labels


tokens, labels = sample(960)
model = TextTransformer()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(8):
    model.train()
    right = 0
    for batch in torch.randperm(len(tokens)).split(32):
        optimizer.zero_grad()
        out = model(tokens[batch])
        loss = nn.functional.cross_entropy(out, labels[batch])
        loss.backward()
        optimizer.step()
        right += (out.argmax(1) == labels[batch]).sum().item()
    print(f"epoch {epoch} train acc {right / len(tokens):.3f}")
