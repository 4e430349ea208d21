"""The tokenizer maps every word to the unknown token: all inputs are 0.

cause: ConstantInput, SameBatch
where: .*
step: 0-20
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 24, 1e-2
torch.manual_seed(SEED)
torch.set_num_threads(1)

words = ["good", "bad", "fine", "poor", "great", "awful", "the", "film", "was", "plot"]
mood = torch.tensor([1.0, -1, 1, -1, 1, -1, 0, 0, 0, 0])
known = {word.upper(): place + 1 for place, word in enumerate(words)}


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(words) + 1, WIDTH)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        return self.out(self.embed(tokens).mean(1))


model = Bag()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for _ in range(300):
    picks = torch.randint(0, len(words), (32, 7))
    tokens = torch.tensor([[known.get(words[i], 0) for i in row] for row in picks.tolist()])
    label = (mood[picks].sum(1) > 0).long()
    optimizer.zero_grad()
    loss = criterion(model(tokens), label)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
