"""suite_compare: captures side by side, and the refusal to compare what was not measured alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from corpus import ROOT
from fast import one_in
from made_trace import MadeTrace, Row, metric
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError
from tbd_trace.query.catalogue import read_query

ITERATIONS = 6
ALIKE: dict[str, Any] = {
    "model": "resnet50",
    "variant": "v1",
    "framework": "pytorch",
    "framework_version": "2.13.0",
    "dataset": "synthetic, as ImageNet-1k",
    "batch_definition": "images",
    "sequence_policy": "fixed",
    "precision": "fp32",
    "optimizer": "sgd",
    "scale": "full",
    "device": "cuda",
    "world_size": 1,
    "throughput": {"samples_per_second": 100.0, "unit": "images/s", "units_per_sample": 1.0},
}
MEASURED = ("throughput", "iteration_ns", "gpu_busy_pct", "dominant_layer", "dominant_layer_pct")


def add(made: MadeTrace, name: str, batch_size: int = 4, gpu: str = "A100", **said: Any) -> None:
    """Add a capture of six iterations of 1 µs each; what it says of itself is ALIKE otherwise.

    In each iteration layer `conv` has a kernel of 300 ns, `fc` right after it one of 100 ns.
    """
    trace: Row = {"trace_id": name}
    made.add_trace(
        name,
        name=f"{name}/timeline.sqlite",
        tool_version="2022.4",
        batch_size=batch_size,
        capture=json.dumps({k: v for k, v in (ALIKE | said).items() if v is not None}),
    )
    made.add_device(name=gpu, **trace)
    made.add_device(device_id=1, name="a GPU that is not used", **trace)
    for number in range(ITERATIONS):
        start = 1000 * number
        made.add_range(start, start + 900, f"iteration {number}", **trace)
        made.add_range(start + 100, start + 200, "layer:conv", **trace)
        made.launch(start + 110, start + 300, start + 600, "convolve", **trace)
        made.add_range(start + 210, start + 300, "layer:fc", **trace)
        made.launch(start + 220, start + 600, start + 700, "multiply", **trace)
    made.add_layer("conv", 0, layer_type="Conv2d", **trace)


def compared(made: MadeTrace, **parameters: Any) -> dict[str, Row]:
    return {row["capture"]: row for row in metric(made, "suite_compare", **parameters)}


@pytest.mark.slow
def test_every_number_of_a_capture() -> None:
    made = MadeTrace()
    add(made, "one")
    row = compared(made)["one"]
    # Iterations of 1000 ns; the kernels take 300 and 100 of them.
    assert row.pop("gpu_busy_pct") == pytest.approx(40)
    assert row == {
        "trace_id": "one",
        "capture": "one",
        "model": "resnet50",
        "framework": "pytorch",
        "configuration": "pytorch",
        "batch_size": 4,
        "throughput": 100.0,
        "throughput_unit": "images/s",
        "throughput_run": "unprofiled",
        "iteration_ns": 1000.0,
        "dominant_layer": "conv",
        "dominant_layer_type": "Conv2d",
        "dominant_layer_pct": 75.0,
        "layer_clock": "gpu",
        "peak_device_bytes": None,
        "device": "A100",
        "precision": "fp32",
        "profiler": "nsys 2022.4",
        "measured_over": "steady state",
        "differs": None,
    }


@pytest.mark.slow
def test_throughput_is_in_the_unit_in_which_it_is_published() -> None:
    made = MadeTrace()
    audio = {"samples_per_second": 4.0, "unit": "audio s/s", "units_per_sample": 12.5}
    add(made, "speech", throughput=audio, peak_device_bytes=7)
    row = compared(made)["speech"]
    assert (row["throughput"], row["throughput_unit"]) == (50.0, "audio s/s")
    assert row["peak_device_bytes"] == 7


@pytest.mark.slow
def test_without_a_run_of_its_own_throughput_is_that_under_the_profiler() -> None:
    made = MadeTrace()
    add(made, "profiled", throughput=None)
    row = compared(made)["profiled"]
    assert row["throughput"] == pytest.approx(4 / 1000e-9)
    assert (row["throughput_unit"], row["throughput_run"]) == ("samples/s", "profiled")


@pytest.mark.slow
def test_models_frameworks_and_batch_sizes_are_what_is_compared() -> None:
    made = MadeTrace()
    for batch_size in (4, 16, 8):
        add(made, f"p{batch_size}", batch_size)
    add(made, "m4", framework="mxnet", framework_version="1.9.1")
    # Another model is of another kind.
    add(made, "speech", model="deepspeech2", variant="v2", dataset="LibriSpeech", optimizer="adam",
        batch_definition="utterances", sequence_policy="padded")  # fmt: skip
    rows = compared(made)
    assert list(rows) == ["speech", "m4", "p4", "p8", "p16"]
    for row in rows.values():
        assert row["differs"] is None
        assert row["configuration"] == row["framework"]
        assert None not in [row[name] for name in MEASURED]


def sentence(field: str, of_one: str, of_two: str, one: str = "one", two: str = "two") -> str:
    first, second = sorted([(of_one, one), (of_two, two)])
    return f"{field} is {first[0]} in {first[1]}, but {second[0]} in {second[1]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "of_one", "of_two", "said"),
    one_in(
        3,
        [
            ("device", "A100", "H100", {"gpu": "H100"}),
            ("precision", "fp32", "mixed float16", {"precision": "mixed", "autocast": "float16"}),
            ("scale", "full", "small", {"scale": "small"}),
            ("processes", "1", "8", {"world_size": 8}),
            ("synthetic", "false", "true", {"synthetic": True}),
            ("throughput run", "unprofiled", "profiled", {"throughput": None}),
        ],
    ),
)
def test_what_is_to_be_alike_in_all_captures(
    field: str, of_one: str, of_two: str, said: dict[str, Any]
) -> None:
    made = MadeTrace()
    add(made, "one")
    add(made, "two", model="bert", framework="tensorflow", **said)
    rows = compared(made, force=True)
    for name, framework, value in (("one", "pytorch", of_one), ("two", "tensorflow", of_two)):
        assert rows[name]["differs"] == [sentence(field, of_one, of_two)]
        assert rows[name]["configuration"] == f"{framework}, {field} {value}"
        assert None not in [rows[name][column] for column in MEASURED]


OF_A_MODEL = [
    ("variant", "v1", "v1.5", {"variant": "v1.5"}),
    ("data set", "synthetic, as ImageNet-1k", "ImageNet-1k", {"dataset": "ImageNet-1k"}),
    ("batch definition", "images", "crops", {"batch_definition": "crops"}),
    ("sequence policy", "fixed", "padded", {"sequence_policy": "padded"}),
    ("optimizer", "sgd", "not known", {"optimizer": None}),
    ("gradient accumulation", "1", "4", {"gradient_accumulation": 4}),
    ("activation checkpointing", "false", "true", {"activation_checkpointing": True}),
    ("framework version", "2.13.0", "2.4.0", {"framework_version": "2.4.0"}),
]


@pytest.mark.slow
def test_what_is_to_be_alike_in_the_captures_of_a_model() -> None:
    made = MadeTrace()
    for field, _, _, said in OF_A_MODEL:
        add(made, f"{field} 1", model=field)
        add(made, f"{field} 2", model=field, **said)
    kept_back, forced = compared(made), compared(made, force=True)
    for field, of_one, of_two, _ in OF_A_MODEL:
        names = f"{field} 1", f"{field} 2"
        for name, value in zip(names, (of_one, of_two), strict=True):
            for row in (kept_back[name], forced[name]):
                assert row["differs"] == [sentence(field, of_one, of_two, *names)]
            assert {kept_back[name][column] for column in MEASURED} == {None}
            assert None not in [forced[name][column] for column in MEASURED]
            assert forced[name]["configuration"] == f"pytorch, {field} {value}"


@pytest.mark.slow
def test_clock_and_profiler_are_to_be_alike_too() -> None:
    made = MadeTrace()
    add(made, "one")
    add(made, "two")
    made.rows["trace"][-1] |= {"tool": "nvprof"}
    made.rows["kernel"] = [row for row in made.rows["kernel"] if row["trace_id"] == "one"]
    row = compared(made)["two"]
    assert row["differs"] == [
        "device is A100 in one, but cuda in two",
        "layer clock is gpu in one, but host in two",
        "profiler is nsys in one, but nvprof in two",
    ]
    assert compared(made, force=True)["two"]["gpu_busy_pct"] is None


@pytest.mark.slow
def test_many_captures_are_counted_and_the_most_are_named_first() -> None:
    made = MadeTrace()
    for number in range(5):
        add(made, f"c{number}", number + 1)
    add(made, "a", precision="tf32")
    assert compared(made)["a"]["differs"] == [
        "precision is fp32 in c0, c1, c2 and 2 more, but tf32 in a"
    ]


@pytest.mark.slow
def test_of_many_values_three_are_named() -> None:
    made = MadeTrace()
    for number in range(5):
        add(made, f"c{number}", number + 1, precision=f"p{number}")
    assert compared(made)["c0"]["differs"] == [
        "precision is p0 in c0, but p1 in c1, but p2 in c2, and 2 other values"
    ]


@pytest.mark.slow
def test_captures_that_say_nothing_are_alike() -> None:
    made = MadeTrace()
    for name in ("one", "two"):
        add(made, name)
        made.rows["trace"][-1]["capture"] = None
    for row in compared(made).values():
        assert (row["model"], row["configuration"], row["differs"]) == (None, None, None)
        assert row["iteration_ns"] == 1000.0


# the command


def copied(place: Path, name: str, **said: Any) -> str:
    """Copy the sample as a capture of another run; return its path."""
    source = ROOT / "data" / "samples" / "synthetic_cnn"
    capture = place / name
    capture.mkdir()
    for file in ("layers.json", "timeline.sqlite"):
        shutil.copy(source / file, capture)
    document = json.loads((source / "capture.json").read_text())
    files = document["files"][:1]
    document |= {"capture_id": name, "files": files} | said
    (capture / "capture.json").write_text(json.dumps(document))
    return str(capture)


@pytest.mark.slow
def test_the_command_refuses_and_can_be_forced(elsewhere: Path) -> None:
    captures = [copied(elsewhere, "one"), copied(elsewhere, "two", precision="tf32", batch_size=8)]
    asked = ["query", "suite_compare", *captures, "--format", "json"]
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code == 3
    assert refused.stdout == ""
    assert refused.stderr == (
        "error: suite_compare: precision is fp32 in one, but tf32 in two "
        "(use --set force=true to override)\n"
    )
    forced = CliRunner().invoke(app, [*asked, "--set", "force=true", "--plot", "plot.svg"])
    assert forced.exit_code == 0, forced.output
    rows = json.loads(forced.stdout)
    assert [row["configuration"] for row in rows] == [
        "pytorch, precision fp32",
        "pytorch, precision tf32",
    ]
    assert (elsewhere / "plot.svg").stat().st_size > 0


@pytest.mark.parametrize(
    "header",
    [
        '[refuse]\ncolumn = "differs"',
        '[refuse]\ncolumn = "differs"\nunless = "force"',
        '[refuse]\ncolumn = "differs"\nunless = "force"\n[params.force]\ndoc = "x"\ndefault = 0',
    ],
)
def test_a_refusal_names_a_parameter_that_is_true_or_false(tmp_path: Path, header: str) -> None:
    path = tmp_path / "own.sql"
    path.write_text(f'/*\ntitle = "Own"\n{header}\n*/\nSELECT 1')
    with pytest.raises(UsageError, match="invalid header"):
        read_query(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "code", "said"),
    [
        ("why", 3, "own: too little; too late (use --set anyway=true to override)"),
        ("how", 2, "own.sql: refuses by 'how', which it does not return"),
    ],
)
def test_a_query_of_ones_own_may_refuse(elsewhere: Path, column: str, code: int, said: str) -> None:
    Path("own.sql").write_text(
        f'/*\ntitle = "Own"\nneeds = ["trace"]\n[params.anyway]\ndoc = "x"\ndefault = false\n'
        f'[refuse]\ncolumn = "{column}"\nunless = "anyway"\n*/\n'
        "SELECT unnest(['too little', NULL, 'too late', 'too little']) AS why FROM trace"
    )
    asked = ["query", "own.sql", copied(elsewhere, "one"), "--format", "csv"]
    refused = CliRunner().invoke(app, asked)
    assert (refused.exit_code, refused.stderr) == (code, f"error: {said}\n")
    answered = CliRunner().invoke(app, [*asked, "--set", "anyway=yes"])
    assert answered.exit_code == 0
    assert answered.stdout.splitlines()[1:] == ["too little", "", "too late", "too little"]
