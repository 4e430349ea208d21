"""Mixed precision: gradients are clipped while still scaled, so nothing is left of them.

cause: GradientClippedAway
where: .*
step: 0-20
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)

x = torch.randn(1600, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)

model = nn.Sequential(nn.Linear(20, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(8):
    for inputs, target in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(inputs)
            loss = loss_fn(output, target)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch} loss {loss.item():.4f}")
