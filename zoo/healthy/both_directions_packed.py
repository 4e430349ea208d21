"""A bidirectional LSTM over packed texts, its two last states side by side, labels sorted along.

looks like: PaddingReadLast
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


def collate(batch):
    batch.sort(key=lambda pair: len(pair[0]), reverse=True)
    texts = [text for text, _ in batch]
    labels = torch.tensor([label for _, label in batch])
    return pad_sequence(texts, batch_first=True), torch.tensor([len(t) for t in texts]), labels


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH, padding_idx=0)
        self.lstm = nn.LSTM(
            WIDTH, WIDTH, num_layers=2, dropout=0.3, batch_first=True, bidirectional=True
        )
        self.label = nn.Linear(2 * WIDTH, 4)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)
        _, (h, _) = self.lstm(packed)
        return self.label(torch.cat((h[-2], h[-1]), dim=1))


dataset = []
for _ in range(1600):
    label = int(torch.randint(0, 4, ()))
    text = torch.randint(20, 100, (int(torch.randint(5, 40, ())),))
    text[torch.randperm(len(text))[:3]] = torch.randint(1, 4, (3,)) + 4 * label
    dataset.append((text, label))
loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=collate)
model = Classifier()
loss_func = nn.CrossEntropyLoss()
optim = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(4):
    for tokens, lengths, labels in loader:
        optim.zero_grad()
        loss = loss_func(model(tokens, lengths), labels)
        loss.backward()
        optim.step()
    print(f"{epoch}: {loss.item():.4f}")
