"""Sequence to sequence with teacher forcing; most targets are padding, which does not count.

looks like: PaddingInLoss
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
PAD, SOS, VOCAB, LONGEST = 0, 1, 12, 24


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        return self.rnn(packed)[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, hidden):
        hidden = self.cell(self.embedding(token), hidden)
        return self.out(hidden), hidden


encoder, decoder = Encoder(), Decoder()
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=LR)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)


def batch(size=32):
    lengths = torch.randint(2, 6, (size,))
    tokens = torch.randint(2, VOCAB, (size, LONGEST))
    inside = torch.arange(LONGEST) < lengths[:, None]
    return tokens.masked_fill(~inside, PAD), lengths


for iteration in range(250):
    source, lengths = batch()
    target = source.clone()
    target[source > PAD] = 2 + (source[source > PAD] + 3) % (VOCAB - 2)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    hidden = encoder(source, lengths)[0]
    token, loss = torch.full((32,), SOS), 0
    steps = int(lengths.max())
    for t in range(steps):
        scores, hidden = decoder(token, hidden)
        loss = loss + criterion(scores, target[:, t])
        token = target[:, t] if torch.rand(()) < 0.7 else scores.argmax(1)
    (loss / steps).backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    if iteration % 50 == 0:
        print(iteration, (loss / steps).item())
