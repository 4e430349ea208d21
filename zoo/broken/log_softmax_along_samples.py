"""A loss with smoothed labels takes the log softmax along the samples, not along the classes.

cause: LossInputNotLogProbabilities
where: .*
step: 0-400
"""

import torch
from torch import nn

torch.set_num_threads(1)
SEED, WIDTH, LR = 0, 64, 5e-2
torch.manual_seed(SEED)


class SmoothLoss(nn.Module):
    def __init__(self, classes, eps=0.1):
        super().__init__()
        self.classes, self.eps = classes, eps

    def forward(self, scores, labels):
        logs = scores.log_softmax(0)
        soft = torch.full_like(logs, self.eps / (self.classes - 1))
        soft.scatter_(1, labels.unsqueeze(1), 1 - self.eps)
        return -(soft * logs).sum(1).mean()


centres = torch.randn(6, 20)
shares = torch.tensor([0.45, 0.25, 0.12, 0.08, 0.06, 0.04])
net = nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 6))
criterion = SmoothLoss(6)
opt = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
for step in range(300):
    y = torch.multinomial(shares, 48, replacement=True)
    scores = net(centres[y] + 0.7 * torch.randn(48, 20))
    loss = criterion(scores, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item(), (scores.argmax(1) == y).float().mean().item())
