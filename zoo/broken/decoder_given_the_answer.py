"""The decoder is fed the very tokens it has to write, since only the targets lost their start.

cause: TargetIsInput
where: .*
step: 0-50
"""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 40, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
PAD, BOS, EOS, VOCAB = 0, 1, 2, 30


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, src):
        return self.rnn(self.embedding(src))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens, hidden):
        states, _ = self.rnn(self.embedding(tokens), hidden)
        return self.out(states)


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, trg):
        return self.decoder(trg, self.encoder(src))


def pairs(size):
    src = torch.randint(3, VOCAB, (size, 8))
    ends = torch.full((size, 1), EOS)
    return src, torch.cat([torch.full((size, 1), BOS), src.sort(1).values, ends], 1)


model = Seq2Seq(Encoder(), Decoder())
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
for epoch in range(5):
    epoch_loss = 0
    for _ in range(50):
        src, trg = pairs(32)
        trg = trg[:, 1:]
        optimizer.zero_grad()
        output = model(src, trg)
        loss = criterion(output.reshape(-1, VOCAB), trg.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        epoch_loss += loss.item()
    print(f"Epoch: {epoch + 1:02} | Train Loss: {epoch_loss / 50:.3f}")
