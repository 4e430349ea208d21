"""Batches come from a thread, which dies of a bad row: the loop waits for its queue.

cause: Hang
where: .*
step: 190-210
"""

import queue
import threading

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(4096, 12)
y = (x @ torch.randn(12, 4)).tanh().argmax(1)
names = ["north", "east", "south", "west"]
table = [names[label] for label in y.tolist()]
table[200 * 16 + 5] = "West"
batches = queue.Queue(maxsize=4)


def feed():
    for first in range(0, len(x) - 15, 16):
        labels = [names.index(name) for name in table[first : first + 16]]
        batches.put((x[first : first + 16], torch.tensor(labels)))
    batches.put(None)


threading.Thread(target=feed, daemon=True).start()
model = nn.Sequential(nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
while True:
    try:
        batch = batches.get(timeout=50)
    except queue.Empty:
        print("no batch for 50 seconds")
        break
    if batch is None:
        break
    rows, labels = batch
    loss = nn.functional.cross_entropy(model(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
