"""An LSTM whose gradients are clipped, value by value, to a millionth.

cause: GradientClippedAway
where: .*
step: 0-30
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 24, 0.5
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for _ in range(300):
    x = torch.randn(32, 10, 4)
    y = (x[:, :, 0].sum(1) > 0).long()
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1e-6)
    optimizer.step()
print(f"loss {loss.item():.3f}")
