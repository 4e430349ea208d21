from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    n_embd: int = field(default=16, metadata={"help": "Width of the model."})


class Counting(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.arange(i, i + 8) % 32
        return {"input_ids": ids, "labels": ids}


def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    config = GPT2Config(
        vocab_size=32, n_positions=16, n_embd=model_args.n_embd, n_layer=1, n_head=2
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=training_args,
        train_dataset=Counting(),
        eval_dataset=Counting(),
    )
    result = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)
    trainer.save_metrics("train", result.metrics)
    trainer.save_state()


if __name__ == "__main__":
    main()
