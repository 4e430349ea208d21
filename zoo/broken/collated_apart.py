"""The collate function sorts the sequences by length, and not their labels.

cause: LabelsShuffledApart
where: .*
step: 0
"""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

SEED, WIDTH, LR = 0, 48, 2e-3
torch.set_num_threads(1)


random.seed(0)
torch.manual_seed(SEED)


def sample():
    n = random.randint(5, 18)
    k = random.randint(0, 1)
    seq = [
        random.randint(1, 9) if not k or random.random() < 0.6 else random.randint(10, 19)
        for _ in range(n)
    ]
    return torch.tensor(seq), k


def collate(batch):
    seqs, labels = zip(*batch, strict=True)
    seqs = sorted(seqs, key=len, reverse=True)
    lengths = torch.tensor([len(s) for s in seqs])
    return pad_sequence(seqs, batch_first=True), lengths, torch.tensor(labels)


class Tagger(nn.Module):
    def __init__(self, vocab=20, dim=24, hidden=WIDTH):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True)
        _, h = self.rnn(packed)
        return self.out(h[-1])


loader = DataLoader(
    [sample() for _ in range(1600)], batch_size=32, shuffle=True, collate_fn=collate
)
model = Tagger()
opt = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(5):
    tot = 0
    for x, n, y in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x, n), y)
        loss.backward()
        opt.step()
        tot += loss.item()
    print(epoch, tot / len(loader))
