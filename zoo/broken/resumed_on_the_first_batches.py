"""Each attempt sets the seed at its start: what goes on after the checkpoint are the first batches.

cause: DataRepeatedAtResume
where: .*
step: 150-152
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 3e-3
torch.set_num_threads(1)
data = torch.Generator().manual_seed(SEED)
x = torch.randn(8192, 12, generator=data)
y = (x @ torch.randn(12, 4, generator=data)).tanh().argmax(1)


def attempt(last, resumes=False):
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    step = 0
    if resumes:
        saved = torch.load("checkpoint.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    for rows, labels in loader:
        loss = nn.functional.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == last:
            break
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, "checkpoint.pt")
    print(f"step {step} loss {loss.item():.4f}")


attempt(150)
attempt(400, resumes=True)
