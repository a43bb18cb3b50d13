"""Seq2Seq, Transformer and BERT: size, work, data, and that they learn."""

from __future__ import annotations

import itertools
import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fast import one_in

torch = pytest.importorskip("torch")

from corpus import reference_rows  # noqa: E402
from tbd_models.definition import Variant  # noqa: E402
from tbd_models.instrument.layers_pytorch import Layer, measure  # noqa: E402
from tbd_models.pytorch.workload import Workload, to_device  # noqa: E402
from tbd_models.synthetic import BEGIN, END, FIRST_WORD, MASK, words  # noqa: E402

# Model, variant, and the row of the reference: its name and the text that its unit begins with.
VARIANTS = [
    ("seq2seq", "nmt", "Seq2Seq NMT 2x512 uni, en-vi vocabularies", "source 25"),
    ("transformer", "base", "Transformer base", "source 32"),
    ("bert", "pretraining-128", "BERT-large pre-training", "sequence 128"),
    ("bert", "pretraining-512", "BERT-large pre-training", "sequence 512"),
    ("bert", "squad", "BERT-large SQuAD", "sequence 384"),
]
IDS = [f"{model}-{variant}" for model, variant, _, _ in VARIANTS]
each_variant = pytest.mark.parametrize(("name", "variant"), [v[:2] for v in VARIANTS], ids=IDS)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def _definition(name: str, variant: str) -> Variant:
    if name == "bert":
        pytest.importorskip("transformers")
    found: Variant = import_module(f"tbd_models.{name}").MODEL.variant(variant)
    return found


def _workload(name: str, dimensions: Any) -> Workload:
    made: Workload = import_module(f"tbd_models.{name}.pytorch").workload(dimensions)
    return made


def _measured(name: str, dimensions: Any, size: int, device: str) -> tuple[Workload, list[Layer]]:
    with torch.device(device):
        work = _workload(name, dimensions)
    batch = to_device(work.batch(size, np.random.default_rng(0)), torch.device(device))
    layers = measure(
        work.model, lambda: work.loss(work.forward(work.model, batch), batch).backward()
    )
    return work, layers


def _flop(layers: list[Layer], size: int) -> tuple[float, float]:
    forward = sum(layer.forward_flop for layer in layers)
    return forward / size, (forward + sum(layer.backward_flop for layer in layers)) / size


def _losses(work: Workload, size: int, steps: int, bf16: bool = False) -> list[float]:
    generator = np.random.default_rng(0)
    pool = [work.batch(size, generator) for _ in range(4)]
    optimizer = work.optimizer(list(work.model.parameters()))
    work.model.train()
    losses = []
    for batch in itertools.islice(itertools.cycle(pool), steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = work.loss(work.forward(work.model, batch), batch)
        loss.backward()
        if work.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(work.model.parameters(), work.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant", "row", "unit"), one_in(5, VARIANTS), ids=IDS)
def test_full_size_has_the_declared_parameters_and_operations(
    name: str, variant: str, row: str, unit: str
) -> None:
    declared = _definition(name, variant)
    work, layers = _measured(name, declared.dimensions, 2, "meta")
    forward, training = _flop(layers, 2)
    assert sum(p.numel() for p in work.model.parameters()) == declared.parameters
    assert (forward, training) == (declared.forward_flop, declared.training_flop)

    table = reference_rows("flops_golden.csv")
    found = [r for r in table if r["model"] == row and r["per"].startswith(unit)]
    assert len(found) == 1
    # The reference's vocabulary of BERT is not padded: scores of six words more.
    padding = 2 * 6 * 1024 * declared.dimensions.predictions if name == "bert" else 0
    assert forward == int(found[0]["forward_flop"]) + padding
    assert training == int(found[0]["training_flop"]) + 3 * padding


def test_parameters_by_hand() -> None:
    width, inner = 512, 2048
    lstm = 4 * width * (width + width) + 2 * 4 * width
    fed = 4 * width * (2 * width + width) + 2 * 4 * width
    attention = width * width + width * width + width + 2 * width * width
    seq2seq = (17191 + 2 * 7709) * width + 3 * lstm + fed + attention
    assert _definition("seq2seq", "nmt").parameters == seq2seq

    norm, feed_forward = 2 * width, 2 * width * inner + inner + width
    encoder = 4 * width * width + feed_forward + 2 * norm
    decoder = 8 * width * width + feed_forward + 3 * norm
    transformer = 33708 * width + 6 * (encoder + decoder) + 2 * norm
    assert _definition("transformer", "base").parameters == transformer

    width = 1024
    layer = 4 * (width * width + width) + 8 * width * width + 5 * width + 4 * width
    bert = (30522 + 512 + 2) * width + 2 * width + 24 * layer
    padding = 6 * (width + 1)  # embeddings and biases of scores
    pooler = width * width + width
    heads = (width * width + width + 2 * width + 30522) + (2 * width + 2)
    assert _definition("bert", "squad").parameters == bert + 2 * width + 2
    assert _definition("bert", "pretraining-128").parameters == bert + pooler + heads + padding


@pytest.mark.slow
@each_variant
def test_a_cpu_counts_as_many_operations_as_meta_tensors(name: str, variant: str) -> None:
    small = _definition(name, variant).small
    counts = [_flop(_measured(name, small, 3, device)[1], 3) for device in ("meta", "cpu")]
    assert counts[0] == counts[1]


@each_variant
def test_batches_come_from_the_seed_alone(name: str, variant: str) -> None:
    work = _workload(name, _definition(name, variant).small)
    first, again, other = (work.batch(3, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)
    assert {(len(value), value.dtype) for value in first.values()} == {(3, torch.int64)}


@pytest.mark.slow
@each_variant
@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
def test_loss_falls_in_20_steps(name: str, variant: str, bf16: bool) -> None:
    declared = _definition(name, variant)
    losses = _losses(_workload(name, declared.small), declared.default_batch_size, 20, bf16)
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])


@each_variant
@pytest.mark.parametrize("size", [1, 3])
def test_any_batch_size(name: str, variant: str, size: int) -> None:
    losses = _losses(_workload(name, _definition(name, variant).small), size, 2)
    assert all(math.isfinite(loss) for loss in losses)


def test_words_follow_zipfs_law() -> None:
    vocabulary = 1004
    drawn = torch.from_numpy(words((200_000,), vocabulary, np.random.default_rng(0)))
    assert drawn.min() == FIRST_WORD
    assert drawn.max() == vocabulary - 1
    counts = torch.bincount(drawn, minlength=vocabulary)[FIRST_WORD:] / len(drawn)
    for rank in (1, 2, 10):
        share = math.log(1 + 1 / rank) / math.log(1001)
        assert counts[rank - 1].item() == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_a_translation_is_the_sentence_reversed(name: str) -> None:
    work = _workload(name, import_module(f"tbd_models.{name}").MODEL.variants[0].small)
    batch = work.batch(3, np.random.default_rng(0))
    # Seq2Seq's target has fewer words: the last words share translations with the first.
    words = range(4, 64) if name == "transformer" else [*range(4, 48), *range(4, 20)]
    translation = dict(zip(range(4, 64), words, strict=True))
    assert batch["label"].tolist() == [
        [translation[word] for word in row[::-1]] for row in batch["source"].tolist()
    ]
    assert batch["target"].tolist() == [[BEGIN, *row[:-1]] for row in batch["label"].tolist()]


@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_a_translation_depends_on_the_source_and_on_earlier_words_alone(name: str) -> None:
    work = _workload(name, import_module(f"tbd_models.{name}").MODEL.variants[0].small)
    work.model.eval()
    batch = work.batch(2, np.random.default_rng(0))
    before = work.forward(work.model, batch)
    at = 3
    later = {**batch, "target": batch["target"].clone()}
    later["target"][:, at] = (later["target"][:, at] + 1) % 48
    after = work.forward(work.model, later)
    torch.testing.assert_close(after[:, :at], before[:, :at])
    assert not torch.allclose(after[:, at:], before[:, at:])

    # The first sentence's source matters to all of its translation, and to no other sentence.
    other = {**batch, "source": batch["source"].clone()}
    other["source"][0, -1] = (other["source"][0, -1] + 1) % 64
    after = work.forward(work.model, other)
    torch.testing.assert_close(after[1], before[1])
    assert (after[0] - before[0]).abs().amax(-1).min() > 0


def test_attention_is_additive() -> None:
    from tbd_models.seq2seq.pytorch import AdditiveAttention

    attention = AdditiveAttention(4)
    query, keys, memory = torch.randn(2, 4), torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    expected = []
    for n in range(2):
        projected = attention.query.weight @ query[n]
        scores = [attention.score.weight[0] @ torch.tanh(projected + key) for key in keys[n]]
        weights = [torch.exp(score) for score in scores]
        expected.append(sum(w * m for w, m in zip(weights, memory[n], strict=True)) / sum(weights))
    torch.testing.assert_close(attention(query, keys, memory), torch.stack(expected))


def test_attention_of_several_heads_is_that_of_torch() -> None:
    from tbd_models.transformer import Dimensions
    from tbd_models.transformer.pytorch import MultiHeadAttention

    ours = MultiHeadAttention(Dimensions(width=8, heads=2, dropout=0.0))
    theirs = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([ours.query.weight, ours.key.weight, ours.value.weight])
        )
        theirs.out_proj.weight.copy_(ours.output.weight)
    x, memory = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, memory, memory, attn_mask=hidden)
    torch.testing.assert_close(ours(x, memory, hidden), expected)


def test_the_learning_rate_of_the_transformer() -> None:
    from tbd_models.transformer import Dimensions

    d = Dimensions()
    assert d.rate(16000) == pytest.approx(1 / math.sqrt(512 * 16000))
    assert d.rate(8000) == pytest.approx(d.rate(16000) / 2)
    assert d.rate(64000) == pytest.approx(d.rate(16000) / 2)


def test_the_schedule_counts_the_optimizers_steps_and_survives_saving() -> None:
    from tbd_models.pytorch.schedule import scheduled

    def made() -> Any:
        weight = torch.nn.Parameter(torch.zeros(1))
        weight.grad = torch.ones(1)
        return scheduled(torch.optim.SGD([weight], lr=9.0), lambda step: 0.1 * step)

    optimizer = made()
    rates = []
    for _ in range(3):
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.2, 0.3])
    weight = optimizer.param_groups[0]["params"][0]
    assert weight.item() == pytest.approx(-0.6)

    restored = made()
    restored.load_state_dict(optimizer.state_dict())
    restored.step()
    assert restored.param_groups[0]["lr"] == pytest.approx(0.4)


def test_masked_words_are_recognizable_and_special_tokens_are_not_masked() -> None:
    small = _definition("bert", "pretraining-128").small
    batch = _workload("bert", small).batch(64, np.random.default_rng(0))
    half = small.length // 2
    for n in range(64):
        tokens = batch["tokens"][n].tolist()
        masked = batch["masked"][n].tolist()
        assert len(set(masked)) == small.predictions
        assert [i for i, token in enumerate(tokens) if token == MASK] == masked
        assert (tokens[0], tokens[half - 1], tokens[-1]) == (BEGIN, END, END)
        for position, word in zip(masked, batch["words"][n].tolist(), strict=True):
            tokens[position] = word
        assert min(tokens[1 : half - 1] + tokens[half:-1]) >= FIRST_WORD
        repeats = tokens[1 : half - 1] == tokens[half : 2 * half - 2]
        assert repeats == bool(batch["follows"][n])
    assert batch["segments"][0].tolist() == [0] * half + [1] * half
    assert 0 < batch["follows"].float().mean() < 1


def test_answers_are_between_the_rarest_words() -> None:
    small = _definition("bert", "squad").small
    batch = _workload("bert", small).batch(64, np.random.default_rng(0))
    for tokens, segments, (begin, end) in zip(
        batch["tokens"].tolist(), batch["segments"].tolist(), batch["span"].tolist(), strict=True
    ):
        assert begin < end
        assert segments[begin] == segments[end] == 1
        assert [i for i, t in enumerate(tokens) if t >= small.vocabulary - 2] == [begin, end]


def test_bert_scores_masked_words_as_transformers_does() -> None:
    transformers = pytest.importorskip("transformers")
    from tbd_models.bert.pytorch import PreTraining

    small = _definition("bert", "pretraining-128").small
    ours = PreTraining(small).eval()
    theirs = transformers.BertForPreTraining(ours.bert.config).eval()
    theirs.bert.load_state_dict(ours.bert.state_dict())
    head = theirs.cls.predictions
    head.transform.dense.load_state_dict(ours.masked_words.transform.state_dict())
    head.transform.LayerNorm.load_state_dict(ours.masked_words.norm.state_dict())
    head.decoder.load_state_dict(ours.masked_words.scores.state_dict())
    theirs.cls.seq_relationship.load_state_dict(ours.next_sentence.state_dict())
    batch = _workload("bert", small).batch(2, np.random.default_rng(0))
    scores, follows = ours(batch["tokens"], batch["segments"], batch["masked"])
    expected = theirs(batch["tokens"], token_type_ids=batch["segments"])
    for n, masked in enumerate(batch["masked"]):
        torch.testing.assert_close(scores[n], expected.prediction_logits[n, masked])
    torch.testing.assert_close(follows, expected.seq_relationship_logits)


def test_output_shares_the_embeddings() -> None:
    transformer = _workload("transformer", _definition("transformer", "base").small).model
    assert transformer.scores.weight is transformer.embedding.tokens.weight
    bert = _workload("bert", _definition("bert", "pretraining-128").small).model
    assert bert.masked_words.scores.weight is bert.bert.embeddings.word_embeddings.weight
