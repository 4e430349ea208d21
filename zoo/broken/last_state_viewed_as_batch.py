"""h_n of a bidirectional LSTM is [2, batch, hidden]; view(batch, -1) mixes the samples.

cause: ViewForTranspose
where: .*
step: 0-400
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Reviews(Dataset):
    """Endless reviews of which the words tell the label."""

    def __init__(self, count):
        self.labels = torch.randint(0, 2, (count,))
        self.words = torch.randint(10, 150, (count, 14))
        for word in range(4):
            self.words[torch.arange(count), torch.randint(0, 14, (count,))] = 2 * word + self.labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.words[i], self.labels[i]


class BiLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(150, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.fc1 = nn.Linear(2 * WIDTH, 32)
        self.fc2 = nn.Linear(32, 2)

    def forward(self, text):
        _, (hidden, _) = self.lstm(self.embedding(text))
        hidden = hidden.view(text.size(0), -1)
        return self.fc2(torch.relu(self.fc1(hidden)))


loader = DataLoader(Reviews(6400), batch_size=32, shuffle=True)
model = BiLSTM()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(2):
    correct = 0
    for text, label in loader:
        optimizer.zero_grad()
        prediction = model(text)
        loss = criterion(prediction, label)
        loss.backward()
        optimizer.step()
        correct += (prediction.argmax(1) == label).sum().item()
    print(f"epoch {epoch}: loss {loss.item():.3f} accuracy {correct / 6400:.3f}")
