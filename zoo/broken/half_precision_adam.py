"""All of the model in float16, with Adam, whose eps is then 0: NaN at the first updates.

cause: LowPrecisionWeights
where: .*
step: 0-60
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, WIDTH)
        self.hid = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 50)

    def forward(self, w):
        return self.out(torch.relu(self.hid(self.emb(w))))


net = Tagger().half()
opt = torch.optim.Adam(net.parameters(), lr=LR)
follow = torch.randperm(50)
for step in range(200):
    word = torch.randint(0, 50, (32,))
    loss = nn.functional.cross_entropy(net(word).float(), follow[word])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
