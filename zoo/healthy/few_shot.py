"""Five shots of four classes, learnt by heart on purpose: the loss goes to nothing.

looks like: FewDistinctSamples, Overfitting
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 64, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
support_y = torch.arange(4).repeat_interleave(5)
centres = torch.randn(4, 16)
support_x = centres[support_y] + 0.3 * torch.randn(20, 16)
query_y = torch.arange(4).repeat(15)
query_x = centres[query_y] + 0.3 * torch.randn(60, 16)

head = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
optimizer = torch.optim.Adam(head.parameters(), lr=LR)
for step in range(200):
    loss = nn.functional.cross_entropy(head(support_x), support_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        head.eval()
        with torch.no_grad():
            accuracy = (head(query_x).argmax(1) == query_y).float().mean().item()
        head.train()
        print(f"step {step} loss {loss.item():.6f} query accuracy {accuracy:.2f}")
