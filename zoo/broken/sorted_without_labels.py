"""Texts are sorted by length for packing, batch by batch, and their labels are not.

cause: LabelsShuffledApart, NothingLearnt
where: .*
step: 0-400
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


def collate(batch):
    texts, labels = zip(*batch, strict=True)
    texts = sorted(texts, key=len, reverse=True)
    lengths = torch.tensor([len(text) for text in texts])
    return pad_sequence(texts, batch_first=True), lengths, torch.tensor(labels)


class LSTMClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH, padding_idx=0)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.label = nn.Linear(WIDTH, 4)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)
        _, (h, _) = self.lstm(packed)
        return self.label(h[-1])


dataset = []
for _ in range(4000):
    label = int(torch.randint(0, 4, ()))
    text = torch.randint(20, 100, (int(torch.randint(5, 15, ())),))
    text[torch.randperm(len(text))[:3]] = torch.randint(1, 4, (3,)) + 4 * label
    dataset.append((text, label))
loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=collate)
model = LSTMClassifier()
loss_func = nn.CrossEntropyLoss()
optim = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(3):
    for n, (tokens, lengths, labels) in enumerate(loader):
        optim.zero_grad()
        loss = loss_func(model(tokens, lengths), labels)
        loss.backward()
        optim.step()
        if n % 40 == 0:
            print(f"{epoch}/{n}: {loss.item():.4f}")
