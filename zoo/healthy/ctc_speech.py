"""CTC of log-probabilities: it begins high, stays on blanks for a while, and then learns.

looks like: LossInputNotLogProbabilities
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 48, 5e-3
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
        return self.scores(self.rnn(hidden)[0]).log_softmax(2)


prototypes = torch.randn(LETTERS + 1, 6)


def speak(size=16):
    lengths = torch.randint(2, 5, (size,))
    words = torch.randint(1, LETTERS + 1, (size, 4))
    spread = words.repeat_interleave(FRAMES // 4, dim=1)
    frames = prototypes[spread] + 0.4 * torch.randn(size, FRAMES, 6)
    frames = frames * (torch.arange(FRAMES) < lengths[:, None] * FRAMES // 4)[..., None]
    return frames.transpose(1, 2), lengths * FRAMES // 4, words, lengths


model = Reader()
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for step in range(250):
    frames, frame_counts, words, lengths = speak()
    loss = ctc(model(frames), words, frame_counts, lengths)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5)
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
