"""Averaged weights are put in for each evaluation, and the trained ones back after it."""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 48, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class EMA:
    def __init__(self, model, decay):
        self.model, self.decay, self.backup = model, decay, {}
        self.shadow = {name: p.data.clone() for name, p in model.named_parameters()}

    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p.data, alpha=1 - self.decay)

    def __enter__(self):
        for name, p in self.model.named_parameters():
            self.backup[name], p.data = p.data, self.shadow[name].clone()

    def __exit__(self, *_):
        for name, p in self.model.named_parameters():
            p.data = self.backup[name]


class TextCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(120, WIDTH)
        self.convs = nn.ModuleList([nn.Conv1d(WIDTH, 16, k) for k in (2, 3, 4)])
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(48, 4)

    def forward(self, x):
        e = self.embed(x).transpose(1, 2)
        return self.fc(self.drop(torch.cat([conv(e).relu().amax(2) for conv in self.convs], 1)))


x = torch.randint(0, 120, (1000, 20))
y = torch.randint(0, 4, (1000,))
x[torch.arange(1000), torch.randint(0, 19, (1000,))] = 10 + y
x[torch.arange(1000), torch.randint(0, 19, (1000,))] = 20 + y
model = TextCNN()
ema = EMA(model, 0.98)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for epoch in range(10):
    model.train()
    for i in range(0, 800, 32):
        loss = criterion(model(x[i : i + 32]), y[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update()
    model.eval()
    with ema, torch.no_grad():
        accuracy = (model(x[800:]).argmax(1) == y[800:]).float().mean()
    print(epoch, loss.item(), accuracy.item())
