"""transformers' Trainer with learning_rate=2, meant as 2e-5.

cause: LearningRateTooHigh
step: 0-10
"""

import tempfile

import torch
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

SEED, WIDTH, LR = 0, 32, 2.0
torch.manual_seed(SEED)
torch.set_num_threads(1)
config = DistilBertConfig(
    vocab_size=50, dim=WIDTH, hidden_dim=WIDTH, n_layers=2, n_heads=2, num_labels=2,
    max_position_embeddings=16,
)  # fmt: skip
tokens = torch.randint(50, (1200, 12))
rows = [{"input_ids": each, "labels": int(each[:6].sum() > each[6:].sum())} for each in tokens]
arguments = TrainingArguments(
    tempfile.mkdtemp(), learning_rate=LR, per_device_train_batch_size=32, num_train_epochs=4,
    save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=50,
)  # fmt: skip
Trainer(DistilBertForSequenceClassification(config), arguments, train_dataset=rows).train()
