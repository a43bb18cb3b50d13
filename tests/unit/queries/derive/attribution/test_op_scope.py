"""Which layer, phase and iteration own an operation: _annotation_role to op_scope."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_trace import MadeTrace, Row, nested, relation

FUNCTION = "autograd::engine::evaluate_function: "


def scopes(made: MadeTrace, **parameters: Any) -> dict[str, Row]:
    """Return the scope of each kernel by the kernel's name."""
    rows = relation(made, "op_scope", **parameters)
    found = {row["name"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def roles(*texts: str, domain: str | None = None, **parameters: Any) -> dict[str, Row]:
    """Return the role of NVTX texts."""
    made = MadeTrace()
    for text in texts:
        made.add_range(0, 1, text, domain=domain, domain_id=int(domain is not None))
    return {row["text"]: row for row in relation(made, "_annotation_role", **parameters)}


def owner(*around: str, **parameters: Any) -> Row:
    """Return the scope of a kernel launched inside nested ranges, outermost first.

    It all happens twice: a range that occurs once around others is taken for a whole program.
    """
    made = MadeTrace()
    for start in (0, 1000):
        for depth, text in enumerate(around):
            made.add_range(start + depth, start + 100 - depth, text)
        made.launch(start + 50, start + 60, start + 70, f"k{start}")
    return scopes(made, **parameters)["k0"]


@pytest.mark.slow
def test_a_range_once_around_others_is_no_layer() -> None:
    made = MadeTrace()
    made.add_range(0, 100, "everything")
    for start in (10, 50):
        made.add_range(start, start + 20, "conv1")
        made.launch(start + 5, start + 6, start + 7, f"in{start}")
    made.launch(90, 91, 92, "out")
    found = scopes(made)
    assert [found[name]["layer"] for name in ("in10", "in50", "out")] == ["conv1", "conv1", None]


# iterations by their text


ITERATIONS = [
    "iteration 3",
    "Iteration: 7",
    "iteration",
    "step 12",
    "step=3",
    "Step 3 to 4",
    "step 3/100",
    "ProfilerStep#5",
    "iter_7",
    "iter 3",
    "iter[3]",
    "train_step",
    "train step 3",
    "Training Step 3",
    "epoch 1 step 5",
    "Epoch 1, iteration 5",
    "batch 9",
    "minibatch_3",
    "mini-batch 3",
    "global_step 8",
    "  step 4 ",
]
OTHERS = [
    "data copy in 3",
    "batch_norm",
    "batchnorm2",
    "batch norm 1",
    "stepwise",
    "optimizer.step",
    "Optimizer.step#SGD.step",
    "step function",
    "iterator",
    "iteratee 3",
    "layer 3",
    "epoch 3",
    "forward",
    "aten::batch_norm, seq = 3",
    "footstep 3",
    "",
]
PHASES = {
    "forward": "forward",
    "Forward pass": "forward",
    "phase:forward": "forward",
    "backward": "backward",
    "loss.backward": "backward",
    "optimizer": "optimizer",
    "Optimizer.step#SGD.step": "optimizer",
    "zero_grad": "optimizer",
    "loss": "loss",
    "data": "data",
    "data copy in 3": "data",
    "Batch Load 7": "data",
    "allreduce": "communication",
    "forward_hook_handle": None,
    "feedforward": None,
    "lossy": None,
}
# whatever a layer is called: dots, double underscores, colons, even names of iterations and phases
LAYERS = [
    "conv1",
    "layer1.0.conv1",
    "encoder__block__3",
    "a:b:c",
    "fc 1000 / head",
    "步",
    "step 3",
    "forward",
    "batch",
]


@cache
def known_roles() -> dict[str, Row]:
    """Return the roles of all texts above, from one database."""
    layers = [f"{kind}:{name}" for kind in ("layer", "layer_backward") for name in LAYERS]
    return roles(*{*ITERATIONS, *OTHERS, *PHASES, *layers})


@pytest.mark.parametrize("text", ITERATIONS)
def test_text_marks_an_iteration(text: str) -> None:
    assert known_roles()[text]["is_iteration"]


@pytest.mark.parametrize("text", OTHERS)
def test_text_marks_no_iteration(text: str) -> None:
    assert not known_roles()[text]["is_iteration"]


def test_the_iteration_pattern_is_the_user_s_to_set() -> None:
    found = roles("tick 3", "step 3", iteration_pattern="^tick")
    assert found["tick 3"]["is_iteration"]
    assert not found["step 3"]["is_iteration"]


# phases


@pytest.mark.parametrize(("text", "phase"), PHASES.items())
def test_phase_of_a_text(text: str, phase: str | None) -> None:
    assert known_roles()[text]["phase"] == phase


# layers by their text


@pytest.mark.parametrize("name", LAYERS)
def test_convention_names_are_taken_whole(name: str) -> None:
    forward, backward = (known_roles()[f"{kind}:{name}"] for kind in ("layer", "layer_backward"))
    assert forward["layer"] == backward["layer"] == name
    assert not any(row["is_iteration"] or row["phase"] for row in (forward, backward))
    assert (forward["is_backward"], backward["is_backward"]) == (False, True)


@pytest.mark.slow
def test_the_layer_pattern_names_layers_by_its_group() -> None:
    assert owner("module=conv1 (fwd)", layer_pattern=r"^module=(\w+)")["layer"] == "conv1"
    assert owner("layer:conv1", layer_pattern=r"^module=(\w+)")["layer"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("around", "layer"),
    [
        (["layer:outer", "layer:inner"], "inner"),
        (["layer:outer", "plain"], "outer"),
        (["plain", "layer:inner"], "inner"),
        (["conv1", "aten::conv2d, seq = 1", "aten::cudnn_convolution, seq = 1"], "conv1"),
        (["aten::conv2d, seq = 1", "aten::cudnn_convolution, seq = 1"], "aten::conv2d"),
        (["aten::linear, seq = 1", "fc"], "fc"),
        (["forward", "conv1"], "conv1"),
        (["conv1", "forward"], None),  # a range around phases is a loop or a function
        (["forward"], None),
        (["layer:a", "forward"], "a"),
        (["iteration 1", "conv1"], "conv1"),
        (["training loop", "iteration 1"], None),
        (["{'mod': 'torch', 'op': 'conv2d', 'args': []}"], "torch.conv2d"),
        (["conv1", "{'mod': 'torch', 'op': 'conv2d', 'args': []}"], "conv1"),
    ],
)
def test_which_of_several_layers_owns(around: list[str], layer: str | None) -> None:
    assert owner(*around)["layer"] == layer


@pytest.mark.slow
@pytest.mark.parametrize("domain", one_in(5, ["NCCL", "nccl", "DALI", "libcudf", "cuBLAS"]))
def test_ranges_of_libraries_never_own_kernels(domain: str) -> None:
    made = MadeTrace()
    model = made.add_range(0, 100, "layer:model")
    made.add_range(10, 90, "ncclAllReduce", domain=domain, domain_id=5)
    made.add_range(20, 80, "layer:theirs", domain=domain, domain_id=5)
    made.add_range(20, 80, "step 3", domain=domain, domain_id=5)
    made.launch(50, 60, 70, "k")
    found = scopes(made)["k"]
    assert found["layer"] == "model"
    assert [row["annotation_id"] for row in relation(made, "kernel_scope")] == [model]
    assert (found["iteration"], found["evidence"]) == (None, None)


@pytest.mark.slow
def test_ranges_of_the_program_s_own_domain_do() -> None:
    made = MadeTrace()
    made.add_range(0, 100, "layer:conv", domain="tbd", domain_id=5)
    made.launch(50, 60, 70, "k")
    assert scopes(made)["k"]["layer"] == "conv"


# nesting, by brute force

TEXTS = [
    "layer:conv1",
    "layer:block.0.conv__1",
    "layer_backward:conv1",
    "phase:forward",
    "phase:backward",
    "phase:optimizer",
    "phase:data",
    "phase:loss",
    "phase:communication",
]


def expected_scope(texts: list[str]) -> tuple[str | None, str | None]:
    """Return layer and phase of a launch, from the texts around it, innermost first."""
    layers = [text.split(":", 1)[1] for text in texts if text.startswith("layer")]
    phases = [text.removeprefix("phase:") for text in texts if text.startswith("phase:")]
    backward = any(text.startswith("layer_backward:") for text in texts)
    phase = "backward" if backward else phases[0] if phases else None
    return (layers[0] if layers else None), phase


Steps = list[tuple[bool, int]]
# Where iterations begin. Short and long ranges that alternate are parts of the same iterations; an
# odd number of ranges has no such pairs.
BEGINS = st.sets(st.integers(0, 30), min_size=2).filter(lambda b: len(b) < 4 or len(b) % 2)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    traces=st.lists(
        st.tuples(
            st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=20),
            st.lists(st.sampled_from(TEXTS), min_size=20, max_size=20),
            BEGINS,
            st.integers(0, 1000),  # how long kernels wait
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_innermost_range_owns_and_the_launch_decides_the_iteration(
    traces: list[tuple[Steps, list[str], set[int], int]],
) -> None:
    made = MadeTrace()
    expected: dict[str, Any] = {}
    for trace, (steps, texts, begins, delay) in enumerate(traces):
        ranges = nested(steps)
        cuts = sorted(begins)
        # iterations in a domain of their own, so that the other ranges may cross them
        for number, (start, stop) in enumerate(pairwise([*cuts, 100])):
            row = {"trace_id": f"t{trace}", "domain_id": 3, "domain": "mine"}
            made.add_range(4 * start, 4 * stop - 1, f"step {number}", **row)
        for text, (start, stop, _) in zip(texts, ranges, strict=False):
            made.add_range(4 * start, 4 * stop, text, trace_id=f"t{trace}")
        for at in range(max((stop for _, stop, _ in ranges), default=0) + 3):
            around = [i for i, (start, stop, _) in enumerate(ranges) if start <= at < stop]
            # launched between the edges of ranges, and run when a later iteration is under way
            name, runs = f"{trace} {at}", 4 * at + delay + 5
            made.launch(4 * at + 1, runs, runs + 1, name, trace_id=f"t{trace}")
            number = sum(at >= cut for cut in cuts) - 1
            expected[name] = (
                *expected_scope([texts[i] for i in reversed(around)]),
                *((number, "nvtx") if number >= 0 else (None, None)),
            )
    found = {
        name: (r["layer"], r["phase"], r["iteration"], r["evidence"])
        for name, r in scopes(made).items()
    }
    assert found == expected


AROUND = [*TEXTS, "aten::a", "aten::b", "{'mod': 'torch', 'op': 'conv2d', 'args': []}"]


Spans = list[tuple[int, int, str, str, int]]


def expected_where_ranges_cross(
    spans: Spans, start: int, end: int
) -> tuple[str | None, str | None]:
    """Return layer and phase of a launch: the best kind of layer, the range that began last."""
    around = sorted(
        (s for s in spans if s[0] <= start and end <= s[0] + s[1]), key=lambda span: span[0]
    )
    texts = [text for _, _, text, _, _ in reversed(around)]
    layer, phase = expected_scope(texts)
    others = [t for t in texts if t.startswith("{")] or [t for t in texts if t[:4] == "aten"]
    if layer is None and others:
        layer = "torch.conv2d" if others[-1].startswith("{") else others[-1]
    return layer, phase


spans_around = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 30),
        st.sampled_from(AROUND),
        st.sampled_from(["push_pop", "start_end"]),
        st.integers(0, 1),  # domain
    ),
    max_size=12,
)
calls_in_a_row = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(traces=st.lists(st.tuples(spans_around, calls_in_a_row), min_size=1, max_size=12))
def test_ranges_and_launches_that_cross(
    traces: list[tuple[Spans, list[tuple[int, int]]]],
) -> None:
    """What holds a launch wholly decides."""
    made = MadeTrace()
    expected = {}
    for trace, (spans, calls) in enumerate(traces):
        of = {"trace_id": f"t{trace}"}
        for start, length, text, kind, domain in spans:
            made.add_range(start, start + length, text, kind=kind, domain_id=domain, **of)
        now = 0
        for number, (gap, took) in enumerate(calls):
            begin, now = now + gap, now + gap + took
            name = f"{trace} {number}"
            made.launch(begin, 100 + number, 101 + number, name, took=took, **of)
            expected[name] = expected_where_ranges_cross(spans, begin, now)
    assert {n: (r["layer"], r["phase"]) for n, r in scopes(made).items()} == expected


# other threads


def test_a_launch_of_another_thread_belongs_to_the_iteration_by_time() -> None:
    made = MadeTrace()
    for number in range(3):
        made.add_range(100 * number, 100 * number + 80, f"step {number}")
        made.launch(100 * number + 10, 100 * number + 20, 100 * number + 30, f"own{number}")
        made.launch(100 * number + 40, 1000, 1001, f"other{number}", thread_id=2)
        made.launch(100 * number + 90, 1000, 1001, f"between{number}", thread_id=2)
    found = scopes(made)
    for number in range(3):
        assert (found[f"own{number}"]["iteration"], found[f"own{number}"]["evidence"]) == (
            number,
            "nvtx",
        )
        other = found[f"other{number}"]
        assert (other["iteration"], other["evidence"]) == (number, "time")
        assert found[f"between{number}"]["iteration"] is None


@pytest.mark.slow
def test_the_data_loader_s_steps_are_not_the_iterations() -> None:
    """Several threads mark steps: the one that launches drives the training."""
    made = MadeTrace()
    for number in range(6):
        made.add_range(50 * number, 50 * number + 20, f"batch {number}", thread_id=9)
    for number in range(3):
        made.add_range(100 * number, 100 * number + 80, f"step {number}")
        made.launch(100 * number + 10, 100 * number + 20, 100 * number + 30, f"k{number}")
    assert [r["label"] for r in relation(made, "iteration")] == ["step 0", "step 1", "step 2"]


@pytest.mark.slow
def test_a_micro_batch_in_a_step_is_no_iteration() -> None:
    made = MadeTrace()
    for number in range(3):
        made.add_range(100 * number, 100 * number + 80, f"step {number}")
        for part in range(2):
            made.add_range(100 * number + 30 * part, 100 * number + 30 * part + 20, f"batch {part}")
        made.launch(100 * number + 10, 100 * number + 20, 100 * number + 30, f"k{number}")
    assert [r["label"] for r in relation(made, "iteration")] == ["step 0", "step 1", "step 2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "backward",
    [
        ["ConvolutionBackward0, seq = 4, op_id = 9"],
        [FUNCTION + "ConvolutionBackward0, seq = 4, op_id = 8", "ConvolutionBackward0, seq = 4"],
        [FUNCTION + "ConvolutionBackward0", "ConvolutionBackward0, seq = 4", "aten::cudnn_bwd"],
    ],
)
def test_backward_takes_the_layer_of_the_forward_with_its_sequence_number(
    backward: list[str],
) -> None:
    made = MadeTrace()
    made.add_range(0, 90, "layer:conv1")
    made.add_range(10, 80, "aten::conv2d, seq = 4, op_id = 9")
    made.launch(20, 300, 310, "forward")
    for depth, text in enumerate(backward):
        made.add_range(200 + depth, 290 - depth, text, thread_id=2)
    made.launch(250, 400, 410, "backward", thread_id=2)
    found = scopes(made)
    assert (found["forward"]["layer"], found["forward"]["layer_evidence"]) == ("conv1", "nvtx")
    row = found["backward"]
    assert (row["layer"], row["phase"], row["layer_evidence"]) == ("conv1", "backward", "sequence")


@pytest.mark.slow
def test_the_creator_of_an_autograd_node_is_the_last_operator_with_its_number() -> None:
    """Operators that create no node print the number that the next node will have."""
    made = MadeTrace()
    made.add_range(0, 20, "layer:a")
    made.add_range(5, 10, "aten::detach, seq = 4")
    made.add_range(30, 50, "layer:b")
    made.add_range(35, 40, "aten::conv2d, seq = 4")
    made.add_range(100, 120, "ConvolutionBackward0, seq = 4", thread_id=2)
    made.launch(105, 110, 111, "k", thread_id=2)
    assert scopes(made)["k"]["layer"] == "b"


@pytest.mark.slow
def test_sequence_numbers_are_a_process_s_own() -> None:
    made = MadeTrace()
    for process, name in ((1, "one"), (2, "two")):
        made.add_range(0, 50, f"layer:{name}", process_id=process)
        made.add_range(10, 20, "aten::conv2d, seq = 4", process_id=process)
        made.add_range(100, 120, "ConvolutionBackward0, seq = 4", process_id=process, thread_id=2)
        made.launch(105, 110, 111, f"k{process}", process_id=process, thread_id=2)
    found = scopes(made)
    assert (found["k1"]["layer"], found["k2"]["layer"]) == ("one", "two")


@pytest.mark.slow
def test_a_layer_s_own_backward_range_needs_no_sequence_number() -> None:
    made = MadeTrace()
    made.add_range(0, 50, "layer_backward:block.0__conv", thread_id=2)
    made.launch(20, 30, 40, "k", thread_id=2)
    row = scopes(made)["k"]
    assert (row["layer"], row["phase"], row["layer_evidence"]) == (
        "block.0__conv",
        "backward",
        "nvtx backward",
    )


@pytest.mark.slow
def test_the_autograd_thread_is_backward_by_its_name() -> None:
    made = MadeTrace()
    made.add("thread", process_id=1, thread_id=2, name="pt_autograd_0")
    made.launch(20, 30, 40, "k", thread_id=2)
    assert scopes(made)["k"]["phase"] == "backward"


@pytest.mark.slow
def test_another_thread_is_in_the_phase_that_the_driver_is_in() -> None:
    made = MadeTrace()
    made.add_range(0, 100, "step 0")
    made.add_range(10, 40, "forward")
    made.add_range(50, 90, "backward")
    made.launch(15, 20, 21, "own")
    made.launch(60, 70, 71, "other", thread_id=2)
    found = scopes(made)
    assert (found["own"]["phase"], found["other"]["phase"]) == ("forward", "backward")


# marks


@pytest.mark.slow
def test_marks_begin_iterations_where_there_are_no_ranges() -> None:
    made = MadeTrace()
    made.add_trace(end_ns=400)
    for number in range(3):
        made.add_mark(100 * number + 50, f"iteration {number}")
        made.launch(100 * number + 60, 1000, 1001, f"k{number}")
    made.launch(10, 20, 30, "before")
    found = scopes(made)
    assert [(found[f"k{n}"]["iteration"], found[f"k{n}"]["evidence"]) for n in range(3)] == [
        (0, "time"),
        (1, "time"),
        (2, "time"),
    ]
    assert found["before"]["iteration"] is None
    assert {row["method"] for row in relation(made, "iteration")} == {"nvtx mark"}


@pytest.mark.slow
def test_ranges_say_more_than_marks() -> None:
    made = MadeTrace()
    for number in range(3):
        made.add_mark(10 * number, f"iteration {number}")
        made.add_range(100 * number, 100 * number + 50, f"iteration {number}")
        made.launch(100 * number + 10, 100 * number + 20, 100 * number + 30)
    rows = relation(made, "iteration")
    assert [(row["start_ns"], row["method"]) for row in rows] == [
        (100 * number, "nvtx range") for number in range(3)
    ]


@pytest.mark.slow
def test_nothing_known_is_null() -> None:
    made = MadeTrace()
    made.launch(20, 30, 40, "k")
    row = scopes(made)["k"]
    for name in ("layer", "layer_evidence", "phase", "iteration", "evidence"):
        assert row[name] is None
    assert relation(made, "_innermost_range") == []
