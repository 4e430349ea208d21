"""Powers of x up to the fifth, not scaled, and plain SGD: nan.

cause: UnnormalizedInput, LearningRateTooHigh
where: .*
step: 0
"""

import torch

SEED, WIDTH, LR = 0, 5, 0.001
torch.manual_seed(SEED)
torch.set_num_threads(1)

t = torch.linspace(-4, 4, 200)
powers = torch.stack([t**k for k in range(1, WIDTH + 1)], dim=1)
y = (0.3 * t**3 - t + torch.randn(200)).unsqueeze(1)
model = torch.nn.Linear(WIDTH, 1)
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for epoch in range(200):
    loss = criterion(model(powers), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"epoch {epoch}, loss {loss.item()}")
