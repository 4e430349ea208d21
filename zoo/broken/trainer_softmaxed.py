"""transformers' Trainer with a model of one's own that returns probabilities to cross-entropy.

cause: LossInputAlreadySoftmax
"""

import tempfile

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

SEED, WIDTH, LR = 0, 32, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Tagger(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(30, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.classifier = nn.Linear(WIDTH, 4)
        self.post_init()

    def forward(self, input_ids, labels=None):
        _, h = self.rnn(self.embed(input_ids))
        probabilities = self.classifier(h[-1]).softmax(-1)
        return {"loss": nn.functional.cross_entropy(probabilities, labels), "logits": probabilities}


tokens = torch.randint(30, (1500, 10))
rows = [{"input_ids": each, "labels": int(each[0]) % 4} for each in tokens]
arguments = TrainingArguments(
    tempfile.mkdtemp(), learning_rate=LR, per_device_train_batch_size=32, num_train_epochs=5,
    save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=50,
)  # fmt: skip
Trainer(Tagger(PretrainedConfig()), arguments, train_dataset=rows).train()
