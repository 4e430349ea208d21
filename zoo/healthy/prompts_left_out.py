"""The labels of the prompts are left out of the loss; the task is to write the prompt backwards.

looks like: PromptTrained
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

SEED, WIDTH, LR = 0, 48, 2e-3
torch.set_num_threads(1)


PAD, BOS, SEP, EOS, BASE = 0, 1, 2, 3, 4
VOCAB = 24


def example():
    n = int(torch.randint(3, 7, (1,)))
    q = torch.randint(BASE, VOCAB, (n,))
    a = q.flip(0)
    prompt = torch.cat([torch.tensor([BOS]), q, torch.tensor([SEP])])
    answer = torch.cat([a, torch.tensor([EOS])])
    return prompt, answer


def collate(batch):
    ids, labels = [], []
    for prompt, answer in batch:
        seq = torch.cat([prompt, answer])
        lab = seq.clone()
        lab[: len(prompt)] = -100
        ids.append(seq)
        labels.append(lab)
    ids = pad_sequence(ids, batch_first=True, padding_value=PAD)
    labels = pad_sequence(labels, batch_first=True, padding_value=-100)
    return ids, labels


class Decoder(nn.Module):
    def __init__(self, d=WIDTH):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Embedding(32, d)
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.lm_head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        T = ids.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        h = self.enc(self.emb(ids) + self.pos(torch.arange(T)), mask=mask, is_causal=True)
        return self.lm_head(h)


torch.manual_seed(SEED)
model = Decoder()
opt = torch.optim.AdamW(model.parameters(), lr=LR)
for step in range(250):
    ids, labels = collate([example() for _ in range(32)])
    logits = model(ids)
    loss = F.cross_entropy(
        logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=-100
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print("step", step, "loss", round(loss.item(), 4))
