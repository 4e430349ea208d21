"""An RNN's last output is taken after eighty places of padding: the words are forgotten.

cause: PaddingReadLast
where: .*
step: 0-400
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class RNNClassifier(nn.Module):
    def __init__(self, vocab, classes):
        super().__init__()
        self.embed = nn.Embedding(vocab, WIDTH, padding_idx=0)
        self.rnn = nn.RNN(WIDTH, WIDTH, batch_first=True)
        self.fc = nn.Linear(WIDTH, classes)

    def forward(self, x):
        output, _ = self.rnn(self.embed(x))
        return self.fc(output[:, -1, :])


def sentence():
    label = int(torch.randint(0, 3, ()))
    words = torch.randint(10, 80, (int(torch.randint(6, 16, ())),))
    words[torch.randperm(len(words))[:3]] = 1 + label
    return words, label


pool = [sentence() for _ in range(960)]
pool.append((torch.randint(10, 80, (90,)), 0))  # one long one sets the length of all
texts = pad_sequence([words for words, _ in pool], batch_first=True)
labels = torch.tensor([label for _, label in pool])
model = RNNClassifier(80, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(8):
    correct = 0
    for rows in torch.randperm(len(texts)).split(32):
        optimizer.zero_grad()
        scores = model(texts[rows])
        loss = F.cross_entropy(scores, labels[rows])
        loss.backward()
        optimizer.step()
        correct += int((scores.argmax(1) == labels[rows]).sum())
    print(epoch, correct / len(texts))
