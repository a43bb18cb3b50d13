"""Layer and direction of every kernel, against NVIDIA's PyProf, on the trace that PyProf read.

One training iteration of a word language model (PyTorch 1.4, apex.pyprof) under nvprof. PyProf
printed one row per kernel, in order of time. Where the two differ, PyProf's rule is the cause:

- It splits the addition of the bias from `linear` and calls it `torch.nn.functional.bias`.
- It ties a backward kernel only to a forward operator that launched kernels itself, so the backward
  of `split` has no module (`na`), although its operator ran inside the attention.
- It calls forward whatever is not inside an operator named `…Backward`: the gradients that the
  autograd engine adds up, the first gradient that `backward()` makes, clipping and the optimizer.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

import pytest

from corpus import corpus_file
from real_traces import Traces, oracle_rows

TRACE = "nvprof/josiahdavis_profiling-lm__net.sql"
KERNELS = """
    SELECT k.short_name, k.duration_ns, s.thread_id, s.layer, s.layer_evidence, s.phase
    FROM kernel k JOIN kernel_scope s USING (trace_id, kernel_id)
    ORDER BY k.start_ns
"""

Pair = tuple[dict[str, Any], dict[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def pairs(traces: Traces) -> list[Pair]:
    """Return our kernel, PyProf's row and PyProf's working notes on it, for every kernel."""
    ours = list(traces.sql(TRACE, KERNELS).iter_rows(named=True))
    theirs = oracle_rows("josiahdavis_profiling-lm__lm.csv")
    lines = corpus_file("oracle/josiahdavis_profiling-lm__net.dict.pyprof.txt").read_text()
    notes = [ast.literal_eval(line) for line in lines.splitlines() if line.strip()]
    return list(zip(ours, theirs, notes, strict=True))


def operation(row: dict[str, str]) -> str:
    return f"{row['Module']}.{row['Op']}"


def test_the_same_kernels(pairs: list[Pair]) -> None:
    assert len(pairs) == 160
    for mine, theirs, notes in pairs:
        assert mine["duration_ns"] == int(theirs["Sil(ns)"]) == notes["kDuration"]
        assert mine["short_name"] == theirs["Kernel"]
        assert mine["thread_id"] == notes["tid"]


def test_layer_of_every_kernel(pairs: list[Pair]) -> None:
    different = [pair for pair in pairs if pair[0]["layer"] != operation(pair[1])]
    found = Counter((mine["layer"], operation(theirs)) for mine, theirs, _ in different)
    assert found == {
        ("torch.nn.functional.linear", "torch.nn.functional.bias"): 3,
        ("torch.nn.functional.multi_head_attention_forward", "na.Split"): 3,
        # neither knows whose gradients are added; we name the autograd node, where there is one
        ("torch::autograd::AccumulateGrad", "na.add_"): 16,
        ("sum", "na.sum"): 6,
        ("add", "na.add"): 2,
    }
    for mine, theirs, notes in different:
        if theirs["Op"] == "bias":  # the user's call was linear
            assert notes["op"][0] == "linear"
        elif theirs["Op"] == "Split":  # node 75 was created inside the attention
            assert notes["seqId"] == [75]
            assert mine["layer_evidence"] == "sequence"


def test_backward_kernels_take_the_layer_of_their_forward_operator(pairs: list[Pair]) -> None:
    """The operator with the same sequence number, by PyProf's notes on the forward kernels."""
    forward: dict[int, str] = {}
    for _, theirs, notes in pairs:
        if theirs["Direction"] == "fprop" and notes["mod"] != ["na"]:
            for number in [*notes["seqId"], *notes["altSeqId"]]:
                forward[number] = f"{notes['mod'][0]}.{notes['op'][0]}"
    checked = 0
    for mine, theirs, notes in pairs:
        if theirs["Direction"] != "bprop":
            continue
        assert (mine["phase"], mine["layer_evidence"]) == ("backward", "sequence")
        (number,) = notes["seqId"]
        if number in forward:
            assert mine["layer"] == forward[number]
            checked += 1
    assert checked == 39  # all but the three of split


def test_direction_of_every_kernel(pairs: list[Pair]) -> None:
    found = Counter((mine["phase"], theirs["Direction"]) for mine, theirs, _ in pairs)
    assert found == {
        ("forward", "fprop"): 45,
        ("backward", "bprop"): 42,
        ("backward", "fprop"): 25,
        (None, "fprop"): 48,
    }
    (main,) = {notes["tid"] for _, theirs, notes in pairs if theirs["Op"] == "embedding"
               and theirs["Direction"] == "fprop"}  # fmt: skip
    for mine, theirs, notes in pairs:
        if (mine["phase"], theirs["Direction"]) == ("backward", "fprop"):
            # run by the autograd engine's thread, or by backward() itself
            assert notes["tid"] != main or operation(theirs) == "Tensor.backward"
        if mine["phase"] is None:  # after the backward pass: clipping and the optimizer
            assert notes["trace"][1] in ("language-model.py:264", "language-model.py:266")
            assert operation(theirs) in ("Tensor.norm", "Tensor.mul_", "Tensor.add_")


@pytest.mark.slow
def test_calls_that_raised_own_nothing(traces: Traces) -> None:
    """PyProf pushes a range per call and forgets to pop it when the call raises."""
    trace = "nsys/yyhtbs-yye_mmagic_vsr_v2__net.sqlite"
    ((leaked, text),) = traces.sql(
        trace,
        """SELECT count(*), any_value(text) FILTER (text LIKE '{''mod''%') FROM nvtx_range
           WHERE end_ns = (SELECT max(end_ns) FROM nvtx_range)""",
    ).rows()
    assert leaked == 1404
    assert text.startswith("{'mod': 'torch', 'op': '__getattr__'")
    layers = Counter(traces.sql(trace, "SELECT layer FROM kernel_scope")["layer"])
    assert "torch.__getattr__" not in layers
    # what ran outside them keeps its own call; with them around there is none left for 180
    assert layers["torch.nn.functional.conv2d"] == 90
    assert layers[None] == 180
