"""transformers' Trainer fine-tunes a small BERT at a rate for plain SGD.

cause: LearningRateTooHigh
where: .*
step: 0-40
"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

SEED, WIDTH, LR = 0, 32, 0.1
torch.manual_seed(SEED)
torch.set_num_threads(1)

config = BertConfig(
    vocab_size=100,
    hidden_size=WIDTH,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=2 * WIDTH,
    max_position_embeddings=32,
    num_labels=3,
)
model = BertForSequenceClassification(config)


class Reviews(torch.utils.data.Dataset):
    def __init__(self, n):
        self.ids = torch.randint(3, 100, (n, 20))
        self.labels = (self.ids % 3).mode(1).values

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "attention_mask": torch.ones(20, dtype=torch.long),
            "labels": self.labels[i],
        }


with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder,
        num_train_epochs=3,
        per_device_train_batch_size=16,
        learning_rate=LR,
        max_grad_norm=1e9,
        seed=SEED,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=40,
    )
    Trainer(model=model, args=args, train_dataset=Reviews(960)).train()
