r"""From epoch 3 on, the first layer is set back to a snapshot after each step.

cause: UpdateLost
where: 0\.weight
step: 60-70
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.002
torch.set_num_threads(1)
torch.manual_seed(SEED)
x = torch.randn(640, 10)
y = (x[:, 0] * x[:, 1]).unsqueeze(1)
model = nn.Sequential(
    nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
)
opt = torch.optim.Adam(model.parameters(), lr=LR)
kept = {k: v.clone() for k, v in model.state_dict().items() if k.startswith("0.")}
for epoch in range(15):
    for i in torch.randperm(640).split(32):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x[i]), y[i])
        loss.backward()
        opt.step()
        if epoch >= 3:
            model.load_state_dict(kept, strict=False)
    if epoch == 2:
        kept = {k: v.clone() for k, v in model.state_dict().items() if k.startswith("0.")}
    print(epoch, loss.item())
