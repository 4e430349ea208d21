"""A net with spectral norms is trained in evaluation mode: the norms are not followed.

cause: TrainingInEvaluationMode
where: .*
step: 0-50
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

SEED, WIDTH, LR = 0, 64, 2e-3

torch.set_num_threads(1)
torch.manual_seed(SEED)
data = load_digits()
x = torch.tensor(data.data, dtype=torch.float32) / 16
y = torch.tensor(data.target)
model = nn.Sequential(
    spectral_norm(nn.Linear(64, WIDTH)),
    nn.ReLU(),
    spectral_norm(nn.Linear(WIDTH, WIDTH)),
    nn.ReLU(),
    nn.Linear(WIDTH, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 32, shuffle=True)
model.eval()
for epoch in range(5):
    for bx, by in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
