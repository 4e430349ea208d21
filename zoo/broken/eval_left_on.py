"""validate() puts the GRU into evaluation mode, and only the first epoch trains with dropout.

cause: TrainingInEvaluationMode
where: .*
step: 0-60
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 0, 40, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SentimentGRU(nn.Module):
    def __init__(self, vocab_size=200):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, WIDTH)
        self.drop = nn.Dropout(0.4)
        self.gru = nn.GRU(WIDTH, WIDTH, num_layers=2, dropout=0.3, batch_first=True)
        self.fc = nn.Linear(WIDTH, 1)

    def forward(self, x):
        _, h = self.gru(self.drop(self.emb(x)))
        return self.fc(self.drop(h[-1])).squeeze(1)


class Trainer:
    def __init__(self, model, data, labels):
        self.model = model
        self.opt = torch.optim.RMSprop(model.parameters(), lr=LR)
        self.train_x, self.valid_x = data[:640], data[640:]
        self.train_y, self.valid_y = labels[:640], labels[640:]

    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            for i in range(0, 640, 32):
                self.opt.zero_grad()
                loss = F.binary_cross_entropy_with_logits(
                    self.model(self.train_x[i : i + 32]), self.train_y[i : i + 32]
                )
                loss.backward()
                self.opt.step()
            print(epoch, loss.item(), self.validate())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        out = self.model(self.valid_x)
        return F.binary_cross_entropy_with_logits(out, self.valid_y).item()


words = torch.randint(0, 200, (800, 16))
mood = torch.randn(200)
labels = (mood[words].sum(1) > 0).float()
Trainer(SentimentGRU(), words, labels).fit(9)
