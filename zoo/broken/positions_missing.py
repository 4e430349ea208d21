"""A transformer without positions has to tell which of two marks comes first.

cause: NothingLearnt
where: .*
step: 0-60
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


def sequences(n, length=10):
    tokens = torch.randint(2, 12, (n, length))
    places = torch.rand(n, length).argsort(1)[:, :2]
    rows = torch.arange(n)
    tokens[rows, places[:, 0]] = 0
    tokens[rows, places[:, 1]] = 1
    return tokens, (places[:, 0] < places[:, 1]).long()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, WIDTH)
        encoder_layer = nn.TransformerEncoderLayer(
            d_model=WIDTH, nhead=4, dim_feedforward=64, batch_first=True, norm_first=True
        )
        self.transformer = nn.TransformerEncoder(encoder_layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        return self.fc(self.transformer(self.embedding(tokens)).mean(dim=1))


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss()
for step in range(350):
    tokens, answer = sequences(48)
    loss = criterion(model(tokens), answer)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 70 == 0:
        print(f"step {step}: {loss.item():.4f}")
