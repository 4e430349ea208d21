"""transformers' Trainer with a learning rate of 1e-9, a slip of the exponent.

cause: LearningRateTooLow
where: .*
step: 0-20
"""

import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

SEED, WIDTH, LR = 0, 32, 1e-9
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, WIDTH), nn.GELU(), nn.Linear(WIDTH, 4))

    def forward(self, x, labels=None):
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


x = torch.randn(1600, 10)
labels = (x @ torch.randn(10, 4)).argmax(1)
data = [{"x": row, "labels": label} for row, label in zip(x, labels, strict=True)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=250,
        per_device_train_batch_size=16,
        learning_rate=LR,
        seed=SEED,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=50,
        lr_scheduler_type="constant",
    )
    Trainer(Classifier(), arguments, train_dataset=data).train()
