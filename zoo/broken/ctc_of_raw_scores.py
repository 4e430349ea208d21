"""CTC is given raw scores; it wants logarithms of probabilities.

cause: LossInputNotLogProbabilities
where: .*
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
LETTERS, FRAMES = 8, 24


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, WIDTH, 3, padding=1)
        self.rnn = nn.LSTM(WIDTH, WIDTH, bidirectional=True)
        self.scores = nn.Linear(2 * WIDTH, LETTERS + 1)

    def forward(self, frames):
        hidden = torch.relu(self.conv(frames)).permute(2, 0, 1)
        return self.scores(self.rnn(hidden)[0])


prototypes = torch.randn(LETTERS + 1, 6)


def speak(size=16):
    words = torch.randint(1, LETTERS + 1, (size, 4))
    spread = words.repeat_interleave(FRAMES // 4, dim=1)
    return (prototypes[spread] + 0.4 * torch.randn(size, FRAMES, 6)).transpose(1, 2), words


model = Reader()
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(200):
    frames, words = speak()
    out = model(frames)
    loss = ctc(out, words, torch.full((16,), FRAMES), torch.full((16,), 4))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5)
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
