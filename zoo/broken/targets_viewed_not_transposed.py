"""The tagger's scores are [time, batch, tags], its targets [batch, time]; both are flattened.

cause: TargetOrderDiffers
where: .*
step: 0-400
"""

import torch
import torch.nn as nn
import torch.optim as optim

SEED, WIDTH, LR = 0, 48, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
VOCAB, TAGS, LENGTH, BATCH = 60, 6, 18, 24


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, bidirectional=True)
        self.hidden2tag = nn.Linear(2 * WIDTH, TAGS)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence.t())
        states, _ = self.gru(embeds)
        return self.hidden2tag(states)


lexicon = torch.randint(0, TAGS, (VOCAB,))
sentences = torch.randint(0, VOCAB, (BATCH * 20, LENGTH))
tags = lexicon[sentences]
tags[:, 1:] = (tags[:, 1:] + lexicon[sentences[:, :-1]]) % TAGS
model = Tagger()
loss_function = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=LR)


def train_epoch():
    losses = []
    for i in range(0, len(sentences), BATCH):
        model.zero_grad()
        scores = model(sentences[i : i + BATCH])
        loss = loss_function(scores.view(-1, TAGS), tags[i : i + BATCH].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


for epoch in range(10):
    print("epoch", epoch, "loss", train_epoch())
