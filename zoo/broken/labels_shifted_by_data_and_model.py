"""The data shift the labels by one, and the model shifts them again.

cause: TargetsShiftedWrongly
where: .*
step: 0
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SEED, WIDTH, LR = 0, 48, 5e-3
torch.set_num_threads(1)


class TextBlocks(Dataset):
    def __init__(self, stream, block):
        self.stream, self.block = stream, block

    def __len__(self):
        return (len(self.stream) - 1) // self.block

    def __getitem__(self, i):
        s = i * self.block
        chunk = self.stream[s : s + self.block + 1]
        return {"input_ids": chunk[:-1], "labels": chunk[1:]}


class TinyLM(nn.Module):
    def __init__(self, vocab, d=WIDTH):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.lm_head = nn.Linear(d, vocab)

    def forward(self, input_ids, labels=None):
        h, _ = self.lstm(self.wte(input_ids))
        logits = self.lm_head(h)
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = nn.functional.cross_entropy(
                shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1)
            )
        return {"loss": loss, "logits": logits}


torch.manual_seed(SEED)
V = 30
trans = torch.softmax(torch.randn(V, V) * 3, -1)
seq = [0]
for _ in range(12000):
    seq.append(torch.multinomial(trans[seq[-1]], 1).item())
stream = torch.tensor(seq)
loader = DataLoader(TextBlocks(stream, 32), batch_size=16, shuffle=True)
model = TinyLM(V)
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for epoch in range(8):
    for batch in loader:
        out = model(**batch)
        out["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"epoch {epoch} loss {out['loss'].item():.4f}")
