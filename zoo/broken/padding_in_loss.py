"""Sequence to sequence with teacher forcing: nine of ten targets are padding, and count.

cause: PaddingInLoss
where: .*
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
PAD, START, END, VOCAB, LONGEST = 0, 1, 2, 30, 40


def make_pairs(count):
    """Short words, to be written backwards; everything is padded to the longest."""
    source = torch.full((count, LONGEST), PAD)
    target = torch.full((count, LONGEST), PAD)
    for row in range(count):
        length = int(torch.randint(2, 5, ()))
        word = torch.randint(3, VOCAB, (length,))
        source[row, :length] = word
        target[row, 0] = START
        target[row, 1 : length + 1] = word.flip(0)
        target[row, length + 1] = END
    return source, target


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_embed = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.tgt_embed = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, src, tgt_in):
        _, hidden = self.encoder(self.src_embed(src))
        states, _ = self.decoder(self.tgt_embed(tgt_in), hidden)
        return self.out(states)


source, target = make_pairs(640)
model = Seq2Seq()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(6):
    for i in range(0, len(source), 32):
        src, tgt = source[i : i + 32], target[i : i + 32]
        logits = model(src, tgt[:, :-1])
        loss = loss_fn(logits.reshape(-1, VOCAB), tgt[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
