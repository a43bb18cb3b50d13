"""BERT by the Trainer of transformers."""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 8
STEPS = 4


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        return {"input_ids": list(range(64)), "attention_mask": [1] * 64, "labels": index % 2}


torch.manual_seed(0)
model = BertForSequenceClassification(
    BertConfig(vocab_size=500, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
               intermediate_size=512)
)  # fmt: skip
arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=BATCH, max_steps=STEPS, logging_steps=1,
    report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
)  # fmt: skip
Trainer(model=model, args=arguments, train_dataset=Samples()).train()
