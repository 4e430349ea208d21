"""An LSTM without batch_first gets (batch, time, feature): the batch is its time.

cause: BatchTakenForTime
where: .*
step: 0-20
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)

# which of three waves is it?
phase = 6.28 * torch.rand(1200, 1)
y = torch.randint(0, 3, (1200,))
t = torch.linspace(0, 6.28, 30)
x = torch.sin(t * (1 + y[:, None].float()) + phase) + 0.1 * torch.randn(1200, 30)
train = DataLoader(TensorDataset(x.unsqueeze(-1), y), batch_size=40, shuffle=True)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(input_size=1, hidden_size=WIDTH, num_layers=1)
        self.classifier = nn.Linear(WIDTH, 3)

    def forward(self, seq):
        output, (h, c) = self.lstm(seq)
        return self.classifier(output[:, -1, :])


model = WaveNet()
opt = torch.optim.Adam(model.parameters(), lr=LR)
crit = nn.CrossEntropyLoss()
for epoch in range(12):
    correct = 0
    for xb, yb in train:
        opt.zero_grad()
        pred = model(xb)
        loss = crit(pred, yb)
        loss.backward()
        opt.step()
        correct += (pred.argmax(1) == yb).sum().item()
    print(f"epoch {epoch} accuracy {correct / 1200:.3f}")
