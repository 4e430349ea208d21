"""zero_grad is called at the beginning of each epoch only, not for each batch.

cause: ForgottenZeroGrad
where: .*
step: 0-10
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 32, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

digits = load_digits()
images = torch.tensor(digits.images / 16).float().unsqueeze(1)
labels = torch.tensor(digits.target)
cnn = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
    nn.Flatten(), nn.Linear(128, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10),
)  # fmt: skip
sgd = torch.optim.SGD(cnn.parameters(), lr=LR)
for epoch in range(6):
    sgd.zero_grad()
    for batch in torch.randperm(len(images)).split(64):
        loss = nn.functional.cross_entropy(cnn(images[batch]), labels[batch])
        loss.backward()
        sgd.step()
    print("epoch", epoch, "loss", loss.item())
