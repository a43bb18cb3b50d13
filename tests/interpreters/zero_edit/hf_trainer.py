"""Train a small BERT with the Trainer of Hugging Face."""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)
samples = [
    {"input_ids": torch.randint(50, (8,)), "labels": torch.tensor(number % 2)}
    for number in range(40)
]
arguments = TrainingArguments(
    output_dir=sys.argv[1],
    max_steps=10,
    per_device_train_batch_size=4,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
Trainer(BertForSequenceClassification(config), arguments, train_dataset=samples).train()
