"""ReduceLROnPlateau is stepped with each batch's loss: by the second epoch no rate is left.

cause: ScheduleInOtherUnits, LearningRateZero
where: .*
step: 5-200
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 24, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SignalNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, WIDTH, 7, stride=2, padding=3),
            nn.BatchNorm1d(WIDTH),
            nn.ReLU(inplace=True),
            nn.Conv1d(WIDTH, WIDTH, 5, stride=2, padding=2),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool1d(1),
        )
        self.classifier = nn.Linear(WIDTH, 5)

    def forward(self, signal):
        return self.classifier(self.features(signal).squeeze(-1))


labels = torch.randint(0, 5, (1200,))
time = torch.linspace(0, 1, 96)
freq = 3 + labels[:, None].float() * 0.7 + 0.2 * torch.randn(1200, 1)
signals = torch.sin(6.283 * (freq * time + torch.rand(1200, 1))) + 0.7 * torch.randn(1200, 96)
loader = DataLoader(TensorDataset(signals[:, None], labels), batch_size=24, shuffle=True)
model = SignalNet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
for epoch in range(12):
    total = 0.0
    for signal, label in loader:
        optimizer.zero_grad()
        loss = criterion(model(signal), label)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.item())
        total += loss.item()
    print(epoch, total / len(loader), optimizer.param_groups[0]["lr"])
