"""All weights are drawn between -1 and 0, inputs are positive: no ReLU ever opens.

cause: DeadLayer
where: .*
step: 0
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 40, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Dense(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.kernel = nn.Parameter(-torch.rand(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ self.kernel + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense1 = Dense(64, WIDTH)
        self.dense2 = Dense(WIDTH, WIDTH)
        self.dense3 = Dense(WIDTH, 10)

    def forward(self, x):
        return self.dense3(F.relu(self.dense2(F.relu(self.dense1(x)))))


digits = load_digits()
x = torch.tensor(digits.data / 16.0).float()
y = torch.tensor(digits.target)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9, nesterov=True)
step = 0
while step < 300:
    rows = torch.randint(len(x), (64,))
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
    loss.backward()
    opt.step()
    step += 1
    if step % 50 == 0:
        print(step, loss.item())
