"""clip_grad_norm_ stands before backward(), where there is nothing to clip: the RNN explodes.

cause: ClippedAfterStep, ExplodingGradient, LearningRateTooHigh
where: .*
step: 0-200
"""

import torch
import torch.nn as nn

SEED, WIDTH, LR = 0, 32, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)


class AddingRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, WIDTH, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(WIDTH, 1)
        with torch.no_grad():
            self.rnn.weight_hh_l0.copy_(torch.eye(WIDTH))

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def adding_problem(size, length=40):
    values = torch.rand(size, length)
    marks = torch.zeros(size, length)
    spots = torch.rand(size, length).argsort(1)[:, :2]
    marks.scatter_(1, spots, 1.0)
    return torch.stack([values, marks], 2), (values * marks).sum(1, keepdim=True)


model = AddingRNN()
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
criterion = nn.MSELoss()
for step in range(300):
    x, y = adding_problem(32)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
