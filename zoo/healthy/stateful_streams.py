"""Long streams cut into pieces in order; the LSTM keeps its state and starts anew each epoch.

looks like: StateOfOtherSamples
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 4e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
text = "round and round the rugged rock the ragged rascal ran; peter piper picked a peck. " * 40
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
streams = ids[: len(ids) // 16 * 16].view(16, -1)


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(len(chars), 16)
        self.rnn = nn.LSTM(16, WIDTH, batch_first=True)
        self.decoder = nn.Linear(WIDTH, len(chars))

    def forward(self, x, state):
        out, state = self.rnn(self.encoder(x), state)
        return self.decoder(out), state


model = CharLSTM()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(20):
    state = None
    for i in range(0, streams.size(1) - 1, 16):
        piece = streams[:, i : i + 17]
        scores, state = model(piece[:, :-1], state)
        state = tuple(s.detach() for s in state)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), piece[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
