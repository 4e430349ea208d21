"""transformers' Trainer on a small GPT-2: labels are the inputs, and the model shifts them.

looks like: TargetsShiftedWrongly
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
config = GPT2Config(
    vocab_size=40, n_positions=32, n_embd=WIDTH, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
)
starts = torch.randint(0, 40, (800, 1))
rows = (starts + torch.arange(20) * torch.randint(1, 5, (800, 1))) % 40
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=4,
        per_device_train_batch_size=16,
        learning_rate=LR,
        warmup_steps=20,
        lr_scheduler_type="cosine",
        weight_decay=0.01,
        seed=SEED,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=50,
    )
    Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],
    ).train()
