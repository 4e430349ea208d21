"""A character LSTM whose targets are its inputs, not shifted by one: it learns to copy.

cause: TargetIsInput
where: .*
step: 0-10
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 48, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

corpus = "it was the best of times, it was the worst of times, it was the age of wisdom. " * 60


class CharDataset(Dataset):
    def __init__(self, text, length):
        self.vocab = sorted(set(text))
        self.codes = [self.vocab.index(c) for c in text]
        self.length = length

    def __len__(self):
        return (len(self.codes) - 1) // self.length

    def __getitem__(self, i):
        piece = self.codes[i * self.length : (i + 1) * self.length]
        return torch.tensor(piece), torch.tensor(piece)


class CharRNN(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(size, 16)
        self.lstm = nn.LSTM(16, WIDTH, batch_first=True)
        self.fc = nn.Linear(WIDTH, size)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)
        return self.fc(out), state


dataset = CharDataset(corpus, 20)
loader = DataLoader(dataset, batch_size=16, shuffle=True)
net = CharRNN(len(dataset.vocab))
criterion = nn.CrossEntropyLoss()
opt = torch.optim.RMSprop(net.parameters(), lr=LR)
for epoch in range(18):
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        scores, _ = net(x)
        loss = criterion(scores.transpose(1, 2), y)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}: perplexity {2.718 ** (total / len(loader)):.3f}")
