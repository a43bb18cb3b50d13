"""Memory plans of XLA: sizes, classes by value, damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import corpus_file, reference_rows
from made_xla_memory import INSTRUCTIONS, MADE, made
from tbd_trace.errors import InputError
from tbd_trace.sources.xla_memory.buffer_assignment import is_buffer_assignment, read_plan
from tbd_trace.sources.xla_memory.plan_rows import memory_plan


@pytest.fixture
def plan_file() -> Path:
    return corpus_file("memory/xla_cnn4_train_step-buffer-assignment.txt")


CLASSES = {
    "w": "weight",
    "add": "weight",
    "v": "optimizer_state",
    "sub": "optimizer_state",
    "x": "input",
    "tuple{}": "workspace",
    "c": "unknown",
    "y": "feature_map",
    "dy": "activation_gradient",
    "dw": "weight_gradient",
    "relayout": "workspace",
}


def test_classes_of_a_made_plan(tmp_path: Path) -> None:
    rows = memory_plan(made(tmp_path))
    assert {row["value_name"]: row["class"] for row in rows} == CLASSES
    assert {row["computation"] for row in rows} == {"module_0001.step"}
    assert {row["allocation"]: row["kind"] for row in rows} == {
        0: "donated",
        1: "donated",
        2: "parameter",
        3: "output",
        4: "constant",
        5: "temporary",
    }
    (dw,) = [row for row in rows if row["value_name"] == "dw"]
    assert (dw["bytes"], dw["offset_bytes"], dw["value_bytes"]) == (560, 160, 400)
    assert dw["shape"] == "f32[10,10]{1,0}"


def test_names_of_backward_operations_are_inherited(tmp_path: Path) -> None:
    changed = {**INSTRUCTIONS, 6: ("dw", "dot(%x, %dy)", "model/AddN", ["sub"])}
    rows = memory_plan(made(tmp_path, changed))
    assert {row["value_name"]: row["class"] for row in rows} == CLASSES


def test_inference_has_no_evidence(tmp_path: Path) -> None:
    forward = {
        number: (name, code, operation.replace("gradient_tape", "x").replace("sgd", "y"), readers)
        for number, (name, code, operation, readers) in INSTRUCTIONS.items()
    }
    rows = memory_plan(made(tmp_path, forward))
    classes = {row["value_name"]: row["class"] for row in rows}
    assert {classes[name] for name in ("w", "v", "x")} == {"unknown"}
    assert not {"weight_gradient", "feature_map", "weight"} & set(classes.values())


def test_without_instructions_classes_are_unknown(tmp_path: Path) -> None:
    rows = memory_plan(made(tmp_path, {}))
    assert {row["class"] for row in rows} == {"unknown"}


@pytest.mark.parametrize("kept", [20, 100, 400, 800, len(MADE) - 40, len(MADE) + 500])
def test_truncated_plan(tmp_path: Path, kept: int) -> None:
    path = made(tmp_path)
    path.write_text(path.read_text()[:kept])
    with pytest.raises(InputError, match=r"missing; copy or dump the file again$"):
        memory_plan(path)


def test_damaged_plan(tmp_path: Path) -> None:
    path = made(tmp_path, {}, MADE.replace("size 400", "size 401", 1))
    with pytest.raises(InputError, match="allocations are missing"):
        memory_plan(path)
    path.write_text("other")
    assert not is_buffer_assignment(path.read_bytes())
    with pytest.raises(InputError, match="not a buffer assignment"):
        memory_plan(path)


def test_real_plan(plan_file: Path) -> None:
    assert is_buffer_assignment(plan_file.read_bytes()[:65_536])
    plan = read_plan(plan_file)
    rows = memory_plan(plan_file)
    size_of = {row["allocation"]: row["bytes"] for row in rows}
    assert len(size_of) == 29
    assert sum(size_of.values()) == plan.total_bytes == 1_927_244
    kinds: dict[str, int] = {}
    for number, kind in {row["allocation"]: row["kind"] for row in rows}.items():
        kinds[kind] = kinds.get(kind, 0) + size_of[number]
    assert kinds == {
        "donated": 695_768,
        "parameter": 49_172,
        "output": 84,
        "constant": 12,
        "thread_local": 48,
        "temporary": 1_182_160,
    }
    assert all(row["offset_bytes"] + row["value_bytes"] <= row["bytes"] for row in rows)


def test_parameters_of_the_real_plan_are_the_variables_of_the_model(plan_file: Path) -> None:
    known = {
        row["measure"]: int(row["bytes"])
        for row in reference_rows("memory/tensorflow_mxnet_by_class.csv")
        if (row["model"], row["framework"], row["batch_size"]) == ("cnn", "tensorflow", "4")
    }
    rows = memory_plan(plan_file)
    parameters: dict[str, int] = {}
    for row in rows:
        if row["value_name"].startswith("arg"):
            parameters[row["class"]] = parameters.get(row["class"], 0) + row["value_bytes"]
    assert parameters["weight"] == known["weight"]
    assert parameters["optimizer_state"] == known["optimizer_state"]
    # Images 4 x 32 x 32 x 3 and labels.
    assert parameters["input"] == 49_152 + 16
    gradients = sum(row["value_bytes"] for row in rows if row["class"] == "weight_gradient")
    # The gradient of the bias is fused into its update.
    assert gradients == known["weight_gradient"] - 40


def test_allocation_of_a_weight_has_values_of_other_classes(plan_file: Path) -> None:
    rows = [row for row in memory_plan(plan_file) if row["allocation"] == 0]
    assert [(row["value_name"], row["class"]) for row in rows] == [
        # Backward computes this ReLU again from the output of the convolution.
        ("broadcast_maximum_fusion", "temporary"),
        ("arg4.1", "weight"),
        ("MatMul.4", "temporary"),
        ("MatMul_1.2", "weight_gradient"),
        ("wrapped_add.2", "weight"),
    ]
