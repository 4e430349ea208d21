"""transformers' Trainer: warm-up, linear decay to zero, evaluation and label smoothing."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=40,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=16,
        num_labels=2,
    )  # fmt: skip
)


def rows(count):
    tokens = torch.randint(4, 40, (count, 12))
    return [{"input_ids": each, "labels": int((each < 12).sum() > 2)} for each in tokens]


arguments = TrainingArguments(
    tempfile.mkdtemp(),
    learning_rate=LR,
    per_device_train_batch_size=32,
    num_train_epochs=4,
    warmup_steps=20,
    eval_strategy="epoch",
    label_smoothing_factor=0.1,
    save_strategy="no",
    logging_steps=20,
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    seed=SEED,
)
trainer = Trainer(model, arguments, train_dataset=rows(1024), eval_dataset=rows(128))
trainer.train()
