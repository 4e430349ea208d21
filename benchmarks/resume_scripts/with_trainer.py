"""transformers' Trainer resumes from its last checkpoint, in the middle of an epoch."""

from pathlib import Path

import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

torch.set_num_threads(1)
torch.manual_seed(7)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))

    def forward(self, x, labels):
        scores = self.body(x)
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


x = torch.randn(160, 6)
data = [{"x": row, "labels": int(row.sum() > 0)} for row in x]
arguments = TrainingArguments(
    output_dir="checkpoints",
    use_cpu=True,
    report_to=[],
    num_train_epochs=3,
    per_device_train_batch_size=16,
    learning_rate=2e-3,
    warmup_steps=4,
    save_strategy="steps",
    save_steps=7,
    logging_steps=10,
    disable_tqdm=True,
)
Path("checkpoints").mkdir(exist_ok=True)
trainer = Trainer(Model(), arguments, train_dataset=data)
trainer.train(resume_from_checkpoint=get_last_checkpoint("checkpoints"))
