"""Model FLOP utilization: published FLOP per token, worked windows, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from corpus import corpus_file_named
from made_kineto import GPU, document, event, kernel, launch, operator, write

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN: dict[str, Any] = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
    "vocab_size": 151936, "torch_dtype": "bfloat16", "decoder_sparse_step": 1,
    "mlp_only_layers": [], "use_sliding_window": False, "sliding_window": None,
}  # fmt: skip
SMALL = LLAMA | {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 100, "vocab_size": 500,
}  # fmt: skip
ATTENTION, GATED = 64 * 64 + 2 * 64 * 32 + 64 * 64, 3 * 64 * 100
NORMS = 4 * 2 * 64 + 64
HEAD = 500 * 64


def step(number: int, start: int, *, repeated: bool = False) -> list[dict[str, Any]]:
    """A step of 1,000 us with products of 2 x 1000^3 FLOP: forward, (repeated,) backward."""
    shapes = {"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["c10::BFloat16"] * 2}
    base = 10 * number
    forward = operator("aten::mm", start + 10, 20, **{"Sequence number": base}, **shapes)
    node = operator("MmBackward0", start + 100, 300, **{"Sequence number": base})
    gradient = operator("aten::mm", start + 310, 20, **shapes)
    events = [
        event("user_annotation", f"ProfilerStep#{number}", start, 1000),
        forward, launch(start + 15, base + 1), kernel(start + 20, 100, base + 1, name="gemm_a"),
        node,
        gradient, launch(start + 315, base + 2), kernel(start + 320, 100, base + 2, name="gemm_b"),
        launch(start + 900, base + 3), kernel(start + 905, 50, base + 3, name="relu"),
    ]  # fmt: skip
    if repeated:
        again = operator("aten::mm", start + 110, 20, **{"Sequence number": base + 1}, **shapes)
        events += [again, launch(start + 115, base + 4)]
        events += [kernel(start + 120, 100, base + 4, name="gemm_a")]
    return events


def answer(folder: Path, events: list[Any], **parameters: Any) -> list[dict[str, Any]]:
    header = parameters.pop("header", {})
    path = write(folder / "steps.json", document(events, **header))
    with tbd_trace.open(path) as traces:
        return list(traces.query("mfu", **parameters).to_dicts())


def config(folder: Path, content: Any) -> str:
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def per_token(folder: Path, content: Any, **parameters: Any) -> dict[str, Any]:
    rows = answer(folder, step(1, 0), config=config(folder, content), **parameters)
    return {row["convention"]: row["flop_per_token"] for row in rows[1:]}


@pytest.mark.slow
def test_llama_8b(tmp_path: Path) -> None:
    found = per_token(tmp_path, LLAMA, sequence_length=8192)
    assert found["causal"] == pytest.approx(5.147e10, rel=1e-4)
    assert found["6N"] / found["causal"] == pytest.approx(0.936, abs=5e-4)
    assert found["6N + 12LdS"] / found["causal"] == pytest.approx(1.125, abs=5e-4)
    assert found["6N"] == 6 * 8_030_261_248  # parameters as published


@pytest.mark.slow
def test_qwen3_30b_a3b(tmp_path: Path) -> None:
    found = per_token(tmp_path, QWEN, sequence_length=8192)
    assert found["6N + 12LdS"] == 37_578_559_488
    assert found["causal"] == 27_914_883_072
    forward = per_token(tmp_path, QWEN, sequence_length=8192, passes="forward")
    assert forward["causal"] == pytest.approx(27_914_883_072 / 3)


DENSE = 4 * (ATTENTION + GATED) + NORMS + HEAD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({}, DENSE),
        ({"num_key_value_heads": None}, DENSE + 4 * 2 * 64 * 32),
        # Three of four layers have experts: a router and 2 of 8 networks.
        ({"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 30,
          "n_shared_experts": 1, "first_k_dense_replace": 1},
         4 * ATTENTION + GATED + 3 * (3 * 3 * 64 * 30 + 64 * 8) + NORMS + HEAD),
        # Every second layer, networks as wide as the dense ones.
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2},
         4 * ATTENTION + 2 * GATED + 2 * (2 * GATED + 64 * 8) + NORMS + HEAD),
        ({"model_type": "gpt_neox"}, DENSE - 4 * 64 * 100),
    ],
)  # fmt: skip
def test_active_parameters(tmp_path: Path, changes: dict[str, Any], parameters: int) -> None:
    found = per_token(tmp_path, SMALL | changes, sequence_length=16)
    assert found["6N + 12LdS"] == 6 * parameters + 12 * 4 * 64 * 16


@pytest.mark.slow
def test_embedding_counts_once_where_tied(tmp_path: Path) -> None:
    assert per_token(tmp_path, SMALL)["6N"] == 6 * (DENSE + HEAD)
    assert per_token(tmp_path, SMALL | {"tie_word_embeddings": True})["6N"] == 6 * DENSE


@pytest.mark.parametrize(
    ("changes", "given", "sliding"),
    [
        ({"sliding_window": 100}, {}, 4),
        ({"sliding_window": 100, "use_sliding_window": True, "max_window_layers": 3}, {}, 1),
        ({"sliding_window": 100, "use_sliding_window": False}, {}, 0),
        (
            {"sliding_window": 100, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
            {},
            3,
        ),
        ({"sliding_window": 4000}, {}, 4),
        ({"sliding_window": 100}, {"document_tokens": 500}, 4),
        ({}, {"document_tokens": 500}, 0),
    ],
)
def test_causal_attention_equals_a_count_of_pairs(
    tmp_path: Path, changes: dict[str, Any], given: dict[str, int], sliding: int
) -> None:
    """The formula leaves out the diagonal's half: 0.5 of the keys of a token."""
    found = per_token(tmp_path, SMALL | changes, sequence_length=2000, **given)
    document = given.get("document_tokens", 2000)
    window = changes.get("sliding_window", document)

    def keys(limit: int) -> float:
        return sum(min(i, limit) for i in range(1, document + 1)) / document

    attended = (4 - sliding) * keys(document) + sliding * keys(window)
    assert found["causal"] - 6 * DENSE == pytest.approx(12 * 64 * attended, rel=6e-3)


@pytest.mark.slow
def test_model_and_hardware_flop_of_a_checkpointed_step(tmp_path: Path) -> None:
    events = [e for n in range(4) for e in step(n, 1000 * n, repeated=True)]
    (row,) = answer(tmp_path, events, window="iterations", tokens_per_iteration=1000)
    peak = 108 * 1410e6 * 2048
    assert row["measured_over"] == "all iterations"
    # Four steps of 1,000 us without time between them: the last ends with its range.
    assert row["elapsed_ns"] == 4_000_000
    assert row["model_flop"] == pytest.approx(4 * 4e9)
    assert row["executed_flop"] == pytest.approx(1.5 * row["model_flop"])
    assert row["peak_flops"] == pytest.approx(peak)
    elapsed = row["elapsed_ns"] * 1e-9
    assert row["mfu_pct"] == pytest.approx(100 * row["model_flop"] / (peak * elapsed))
    assert row["hfu_pct"] == pytest.approx(1.5 * row["mfu_pct"])
    assert row["covered_pct"] == pytest.approx(100 * 300 / 350)
    assert (row["convention"], row["arithmetic"], row["reason"]) == ("shapes", "bf16", None)
    assert row["flop_per_token"] == pytest.approx(4e6)


@pytest.mark.slow
def test_iterations_have_their_own_rows(tmp_path: Path) -> None:
    events = [*step(0, 0), *step(1, 1000, repeated=True), *step(2, 2000), *step(3, 3000)]
    rows = answer(tmp_path, events, by="iteration", window="iterations", tokens_per_iteration=50)
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3]
    assert [row["executed_flop"] for row in rows] == pytest.approx([4e9, 6e9, 4e9, 4e9])
    assert [row["model_flop"] for row in rows] == pytest.approx([4e9] * 4)
    for row in rows:
        assert row["elapsed_ns"] == 1_000_000
        assert row["tokens_per_s"] == pytest.approx(50_000)


@pytest.mark.slow
def test_conventions_by_parameters(tmp_path: Path) -> None:
    path = config(tmp_path, SMALL)
    rows = answer(tmp_path, step(1, 0), config=path, sequence_length=2000, tokens_per_s=1e6)
    for row in rows[1:]:
        expected = 100 * row["flop_per_token"] * 1e6 / (108 * 1410e6 * 2048)
        assert row["mfu_pct"] == pytest.approx(expected)
        assert row["model_flop"] == pytest.approx(row["flop_per_token"] * row["elapsed_ns"] / 1e3)
        assert (row["hfu_pct"], row["arithmetic"]) == (None, "bf16")
    assert [row["convention"] for row in rows] == ["shapes", "6N", "6N + 12LdS", "causal"]
    (_, row, *_) = answer(tmp_path, step(1, 0), config=path, tokens_per_s=1e6, arithmetic="fp8")
    assert row["reason"] == "peak of this device unknown"  # an A100 has no FP8


@pytest.mark.slow
def test_more_than_the_peak_is_refused(tmp_path: Path) -> None:
    rows = answer(
        tmp_path, step(1, 0), config=config(tmp_path, LLAMA), sequence_length=8192, tokens_per_s=1e5
    )
    assert all(row["mfu_pct"] is None for row in rows[1:])
    assert all(row["reason"].startswith("above the physical peak (") for row in rows[1:])
    assert rows[0]["mfu_pct"] > 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (SMALL, "set sequence_length"),
        (SMALL | {"hidden_size": None}, "config lacks hidden_size"),
        (SMALL | {"hidden_size": "wide"}, "config lacks hidden_size"),
        ([1], "config lacks hidden_size"),
        ("{", "config is missing, not JSON"),
        (SMALL | {"kv_lora_rank": 512}, "multi-head latent attention has no formula"),
    ],
)
def test_unfit_configs_have_a_reason(tmp_path: Path, content: Any, reason: str) -> None:
    rows = answer(tmp_path, step(1, 0), config=config(tmp_path, content), tokens_per_s=1e3)
    assert rows[-1]["reason"].startswith(reason)
    assert rows[-1]["mfu_pct"] is rows[-1]["flop_per_token"] is None


@pytest.mark.slow
def test_missing_data_have_a_reason(tmp_path: Path) -> None:
    path = config(tmp_path, SMALL)
    rows = answer(tmp_path, step(1, 0), config=path, sequence_length=8)
    assert {row["reason"] for row in rows[1:]} == {"set tokens_per_s or tokens_per_iteration"}
    assert answer(tmp_path, step(1, 0), config=str(tmp_path / "none.json"))[1]["reason"] == (
        "config is missing, not JSON, or several files"
    )
    (row,) = answer(tmp_path, [launch(1, 1), kernel(5, 5, 1)])
    assert row["reason"].startswith("no FLOP from shapes")
    untyped = [{**e, "args": {**e["args"], "Input type": []}} if e["name"] == "aten::mm" else e
               for e in step(1, 0)]  # fmt: skip
    (row,) = answer(tmp_path, untyped)
    assert (row["executed_flop"], row["mfu_pct"]) == (4e9, None)
    assert row["reason"] == "the data types of the inputs are not recorded"
    unknown = {"deviceProperties": [GPU | {"name": "GPU", "computeMajor": 7, "computeMinor": 5}]}
    (row,) = answer(tmp_path, step(1, 0), header=unknown)
    assert (row["mfu_pct"], row["reason"]) == (None, "peak of this device unknown")


@pytest.mark.slow
def test_real_checkpointed_resnet(tmp_path: Path) -> None:
    path = corpus_file_named("*resnet_act_checkpoint.json.gz")
    with tbd_trace.open(path) as traces:
        (row,) = traces.query("mfu").to_dicts()
    # ResNet-18, batch 10: forward F, backward 2F less the first layer, repeated F less the first
    # layer and the last. All three steps count: ranges of 16 ms lie 0.02 ms apart, each launches
    # 746 kernels, and the GPU takes 18.98, 18.98 and 18.55 ms.
    steps = 3
    forward = 10 * 2 * 1_814_073_344
    first, last = 10 * 2 * 112**2 * 64 * 147, 10 * 2 * 512 * 1000
    model, executed = 3 * forward - first, 4 * forward - 2 * first - last
    assert row["model_flop"] == pytest.approx(steps * model, rel=1e-6)
    assert row["executed_flop"] == pytest.approx(steps * executed, rel=1e-6)
    assert row["hfu_pct"] / row["mfu_pct"] == pytest.approx(
        row["executed_flop"] / row["model_flop"]
    )
