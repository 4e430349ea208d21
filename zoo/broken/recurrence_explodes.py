"""A recurrent net of raw parameters, drawn too wide, over eighty steps, without clipping.

cause: ExplodingGradient, WeightsTooLarge
where: .*
step: 0-40
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)


class VanillaRNN(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.W_xh = nn.Parameter(torch.randn(hidden, inputs) * 0.3)
        self.W_hh = nn.Parameter(torch.randn(hidden, hidden) * 0.35)
        self.b_h = nn.Parameter(torch.zeros(hidden))
        self.W_hy = nn.Parameter(torch.randn(1, hidden) * 0.1)
        self.b_y = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.hidden)
        for t in range(x.size(1)):
            h = F.relu(F.linear(x[:, t], self.W_xh) + F.linear(h, self.W_hh, self.b_h))
        return F.linear(h, self.W_hy, self.b_y)


# the adding problem: sum the two marked numbers
def adding(batch, length):
    values = torch.rand(batch, length)
    marks = torch.zeros(batch, length)
    marks[torch.arange(batch), torch.randint(0, length // 2, (batch,))] = 1
    marks[torch.arange(batch), torch.randint(length // 2, length, (batch,))] = 1
    return torch.stack([values, marks], -1), (values * marks).sum(1, keepdim=True)


net = VanillaRNN(2, WIDTH)
opt = torch.optim.SGD(net.parameters(), lr=LR)
for i in range(150):
    x, y = adding(32, 80)
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 25 == 0:
        print(i, loss.item())
