"""ingest --python-frames: frames become annotations, and attribution stays as it is."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import made_kineto as made
import tbd_trace
from all_answers import answers
from made_kineto import Event, document, event, kernel, launch, operator, write
from made_nsys import profile
from made_nsys import write as write_nsys
from perfetto_file import read
from tbd_trace.archive.operations import create
from tbd_trace.cli.main import app
from tbd_trace.errors import CannotAnswerError, InputError
from tbd_trace.export.perfetto import export
from tbd_trace.redact.tables import Redaction
from tbd_trace.store import Database
from tbd_trace.store.capture import CaptureFile, with_python_frames

MAIN, HOOK = "train.py(3): main", "<built-in method DataLoader.__next__>"
# Relations with an owner of each kernel, and queries whose rows frames could change.
ATTRIBUTED = ("op_scope", "annotation_tree", "iteration", "kernel_scope")
ASKED = (
    "op_summary", "module_summary", "layer_time", "iteration_summary", "idle_causes",
    "nvtx_kernels", "nvtx_gpu_time", "nvtx_projection",
)  # fmt: skip


def frame(ts: float, dur: float, name: str, number: int, parent: int | None) -> Event:
    made_frame = made.frame(ts, name, number, parent)
    return made_frame | {"dur": dur}


def step(number: int) -> list[Event]:
    """One step: frames around, between and inside the ranges that own two kernels."""
    start, first = 1000 * number, 10 * number
    return [
        frame(start, 900, MAIN, first, None),
        event("user_annotation", f"ProfilerStep#{number}", start + 1, 890),
        frame(start + 5, 300, "nn.Module: Net_0", first + 1, first),
        frame(start + 6, 290, "net.py(9): forward", first + 2, first + 1),
        frame(start + 10, 200, "nn.Module: Linear_0", first + 3, first + 2),
        operator("aten::linear", start + 20, 100, **{"Sequence number": number}),
        frame(start + 29, 6, "torch/hook.py(1): hook", first + 4, first + 3),
        launch(start + 30, first),
        kernel(start + 50, 80, first),
        frame(start + 400, 50, HOOK, first + 5, first),
        operator("aten::add_", start + 500, 60),
        launch(start + 510, first + 1),
        kernel(start + 530, 70, first + 1, name="add"),
    ]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    events = [one for number in range(4) for one in step(number)]
    return write(tmp_path_factory.mktemp("frames") / "frames.json.gz", document(events))


@pytest.fixture(scope="module")
def plain(trace: Path) -> tbd_trace.Traces:
    return ingested(trace, frames=False)


@pytest.fixture(scope="module")
def framed(trace: Path) -> tbd_trace.Traces:
    return ingested(trace, frames=True)


def ingested(path: Path, *, frames: bool) -> tbd_trace.Traces:
    file, database = CaptureFile(path, path.name), path.with_name(f"{frames}.duckdb")
    Database(database).ingest_files([with_python_frames(file) if frames else file])
    return tbd_trace.open(db=database)


@pytest.mark.slow
def test_frames_are_annotations(framed: tbd_trace.Traces) -> None:
    frames = framed.sql(
        "SELECT text, kind, domain_id, start_ns, end_ns, process_id, thread_id FROM annotation "
        "WHERE source = 'frame' ORDER BY start_ns"
    ).rows()
    assert frames == [
        (one["name"], "push_pop", -3, one["ts"] * 1000, (one["ts"] + one["dur"]) * 1000, 77, 77)
        for number in range(4)
        for one in step(number)
        if one["cat"] == "python_function" and not one["name"].startswith("nn.Module")
    ]
    modules = framed.sql("SELECT DISTINCT text FROM annotation WHERE source = 'module'").rows()
    assert sorted(modules) == [("Net_0",), ("Net_0/Linear_0",)]
    notes = framed.sql("SELECT notes FROM trace").item()
    assert not any("frames of Python" in note for note in notes)
    by_name = {row["range_name"]: row for row in framed.query("nvtx_summary").rows(named=True)}
    assert (by_name[HOOK]["instances"], by_name[HOOK]["total_ns"]) == (4, 4 * 50_000)


@pytest.fixture(scope="module")
def attributed(
    plain: tbd_trace.Traces, framed: tbd_trace.Traces
) -> list[dict[str, pl.DataFrame | CannotAnswerError]]:
    """Return the relations and answers without frames and with them."""
    found = []
    for traces in (plain, framed):
        said = answers(traces.database, ASKED)
        frames = {name: getattr(answer, "frame", answer) for name, answer in said.items()}
        with traces.connect(*ATTRIBUTED) as connection:
            frames |= {name: pl.DataFrame(connection.sql(f"FROM {name}")) for name in ATTRIBUTED}
        found.append(frames)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", (*ATTRIBUTED, *ASKED))
def test_owners_of_gpu_work_stay(attributed: list[dict[str, pl.DataFrame]], name: str) -> None:
    found = []
    for frames in attributed:
        rows = frames[name].drop("trace_id", strict=False).rows(named=True)
        found.append(sorted(map(str, rows)))
    assert found[0] == found[1] != []


@pytest.mark.slow
def test_frames_are_in_a_perfetto_timeline(framed: tbd_trace.Traces, tmp_path: Path) -> None:
    export(framed, tmp_path / "out.pftrace")
    frames = read(tmp_path / "out.pftrace").of("python")
    assert sorted(one.name for one in frames) == sorted(
        4 * [MAIN, HOOK, "net.py(9): forward", "torch/hook.py(1): hook"]
    )
    assert {one.track[-1] for one in frames} == {"Python"}


@pytest.mark.slow
def test_the_same_file_with_frames_is_another_trace(trace: Path, tmp_path: Path) -> None:
    database = ["--db", str(tmp_path / "both.duckdb")]
    outputs = [
        CliRunner().invoke(app, ["ingest", str(trace), *database, *option]).output
        for option in ([], ["--python-frames"], ["--python-frames"])
    ]
    without, kept, again = (output.split() for output in outputs)
    assert without[0] != kept[0] == again[0]
    assert "ingested" in kept
    assert "already there" in outputs[2]
    assert "frames of Python not stored" in outputs[0]
    assert "frames of Python" not in outputs[1]


def test_other_formats_have_no_frames(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    write_nsys(path, profile())
    with pytest.raises(InputError, match=r"no frames of Python; leave out --python-frames"):
        ingested(path, frames=True)


@pytest.mark.slow
def test_an_archive_hides_home_directories_in_frames(tmp_path: Path) -> None:
    events = [frame(1, 1, "/home/alice/net.py(9): forward", 1, None)]
    path = write(tmp_path / "frames.json", document(events))
    database = Database(tmp_path / "x.duckdb")
    database.ingest_files([with_python_frames(CaptureFile(path, path.name))])
    create(database, database.trace_ids(), tmp_path / "x.tbdtrace", redaction=Redaction())
    archived = tbd_trace.open(tmp_path / "x.tbdtrace")
    assert archived.sql("SELECT text FROM annotation").rows() == [("~/net.py(9): forward",)]
