"""A character GRU with tied weights and batches in order; its state is carried on, detached.

looks like: StateOfOtherSamples
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 4e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
text = (
    "she sells sea shells on the sea shore; the shells she sells are sea shells, i am sure. " * 80
)
vocab = {c: i for i, c in enumerate(sorted(set(text)))}
stream = torch.tensor([vocab[c] for c in text])
BATCH, BPTT = 8, 25
columns = stream[: len(stream) // BATCH * BATCH].view(BATCH, -1).t()


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.encoder = nn.Embedding(size, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, 2, dropout=0.1)
        self.decoder = nn.Linear(WIDTH, size)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, tokens, hidden):
        out, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(out).flatten(0, 1), hidden


model = Model(len(vocab))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(8):
    hidden = torch.zeros(2, BATCH, WIDTH)
    for i in range(0, len(columns) - 1 - BPTT, BPTT):
        hidden = hidden.detach()
        model.zero_grad()
        scores, hidden = model(columns[i : i + BPTT], hidden)
        loss = criterion(scores, columns[i + 1 : i + 1 + BPTT].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
