"""The command lines of nsys, its reports, and what timelines hold, without any profiler."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from collector_stand_ins import programs
from tbd_collectors import nsight_compute, nsys, nvprof, profile_stats
from tbd_collectors.process import CollectionError, NothingRecordedError

OPTIONS = [
    "--trace",
    "--sample",
    "--cpuctxsw",
    "--capture-range",
    "--capture-range-end",
    "--nvtx-capture",
    "--cuda-memory-usage",
    "--force-overwrite",
    "--output",
]


def tool(
    *more: str, less: str = "", traces: str = "cuda nvtx cudnn cublas osrt openmp"
) -> nsys.Nsys:
    """Return an nsys that knows more or less than the usual options."""
    options = {*OPTIONS, *more} - set(less.split())
    return nsys.Nsys(Path("/opt/nsys"), "2031.1.1", frozenset(options), frozenset(traces.split()))


def test_nsys_on_a_gpu(tmp_path: Path) -> None:
    argv = nsys.command(["python", "t.py"], tmp_path / "50%", nsys.NsysOptions(), tool())
    assert argv == [
        "/opt/nsys", "profile", "--trace=cuda,nvtx,cudnn,cublas,osrt", "--sample=none",
        "--cpuctxsw=none", "--capture-range=cudaProfilerApi", "--capture-range-end=stop",
        "--force-overwrite=true", f"--output={tmp_path}/50%%", "python", "t.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "present", "absent"),
    [
        ({"gpu": False}, ["--trace=nvtx,osrt", "--capture-range=none"], ["--capture-range-end"]),
        ({"whole_run": True}, ["--capture-range=none"], ["--capture-range-end"]),
        (
            {"gpu": False, "range_name": "a b@c"},
            ["--capture-range=nvtx", "--nvtx-capture=a b@c", "--capture-range-end=stop"],
            [],
        ),
        ({"cpu_sampling": True}, ["--sample=process-tree", "--cpuctxsw=process-tree"], []),
        ({"memory_usage": True}, ["--cuda-memory-usage=true"], []),
    ],
)
def test_nsys_options(
    options: dict[str, object], present: list[str], absent: list[str], tmp_path: Path
) -> None:
    argv = nsys.command(["true"], tmp_path / "r", nsys.NsysOptions(**options), tool())  # type: ignore[arg-type]
    assert set(present) <= set(argv)
    assert not [argument for argument in argv for name in absent if argument.startswith(name)]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (["--gpu-metrics-device"], "--gpu-metrics-device=0"),
        (["--gpu-metrics-devices"], "--gpu-metrics-devices=0"),
        (["--gpu-metrics-devices", "--gpu-metrics-device"], "--gpu-metrics-devices=0"),
        ([], None),
    ],
)
def test_gpu_metrics_by_version(known: list[str], expected: str | None, tmp_path: Path) -> None:
    options = nsys.NsysOptions(gpu_metrics="0")
    argv = nsys.command(["true"], tmp_path / "r", options, tool(*known))
    assert [item for item in argv if "gpu-metrics" in item] == [expected] * (expected is not None)
    assert bool(nsys.unavailable(options, tool(*known))) == (expected is None)


def test_unknown_options_are_left_out(tmp_path: Path) -> None:
    old = tool(less="--cpuctxsw --capture-range-end --cuda-memory-usage", traces="cuda nvtx osrt")
    options = nsys.NsysOptions(memory_usage=True)
    argv = nsys.command(["true"], tmp_path / "r", options, old)
    assert "--trace=cuda,nvtx,osrt" in argv
    assert not re.search("cpuctxsw|capture-range-end|memory", " ".join(argv))
    assert nsys.unavailable(options, old) == ["--cuda-memory-usage"]


def test_nsys_is_asked_what_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    help_text = """NVIDIA Nsight Systems version 2027.1.2.3-abc

\t-x, --mpi=
\t   Applies with --trace=mpi. Possible values are 'openmpi'.

\t-t, --trace=

\t   Possible values are 'cuda', 'nvtx',
\t   'osrt' or 'none'. See e.g. '<api>-annotations'.

\t--new-option=
"""
    folder = programs(tmp_path, monkeypatch, nsys=help_text)
    found = nsys.installed()
    assert (found.path, found.version) == (folder / "nsys", "2027.1.2.3")
    assert found.options == {"--mpi", "--trace", "--new-option"}
    assert found.traces == {"cuda", "nvtx", "osrt", "none"}


def test_the_exit_code_of_help_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = programs(tmp_path, monkeypatch, nsys="2027.1.2.3\n\t-t, --trace=\n 'cuda'\n\t--new=")
    script = folder / "nsys"
    script.write_text(script.read_text() + "exit 1\n")
    assert nsys.installed().traces == {"cuda"}


def test_program_that_is_not_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, nsys="Usage: nsys [anything]")
    with pytest.raises(CollectionError, match="does not answer as Nsight Systems does"):
        nsys.installed()


def test_tools_that_are_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch)
    output = tmp_path / "r"
    with pytest.raises(CollectionError, match=r"nsys is not on PATH: install Nsight Systems"):
        nsys.command(["true"], output, nsys.NsysOptions())
    with pytest.raises(CollectionError, match=r"nvprof is not on PATH: .*install the CUDA toolkit"):
        nvprof.timeline_command(["true"], output, "7.0")
    with pytest.raises(CollectionError, match=r"ncu is not on PATH: install Nsight Compute"):
        nsight_compute.command(["true"], output, nsight_compute.NcuOptions(("a",)))


@pytest.mark.parametrize("linked", [True, False])
def test_importer_that_nsys_does_not_find(
    linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian splits the package: the program lies apart from its host part, with a link beside."""
    monkeypatch.delenv("QUADD_INSTALL_DIR", raising=False)
    real = tmp_path / "arch" / "target-linux-x64"
    real.mkdir(parents=True)
    (real / "nsys").write_text("#!/bin/sh\n")
    (real / "nsys").chmod(0o755)
    whole = tmp_path / "lib"
    (whole / "host-linux-x64").mkdir(parents=True)
    (whole / "host-linux-x64" / "QdstrmImporter").touch()
    (whole / "target-linux-x64").symlink_to(real)
    monkeypatch.setenv("PATH", str(whole / "target-linux-x64" if linked else real))
    expected = {"QUADD_INSTALL_DIR": str(whole)} if linked else {}
    assert nsys.environment() == {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0", **expected}
    monkeypatch.setenv("QUADD_INSTALL_DIR", "/of/the/user")
    assert "QUADD_INSTALL_DIR" not in nsys.environment()


@pytest.mark.parametrize("suffix", nsys.SUFFIXES)
def test_report_of_a_run(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(NothingRecordedError, match=r"r\.v2\.nsys-rep \(its output: Bye\)"):
        nsys.report(tmp_path / "r.v2", ["Hello", "Bye"])
    made = tmp_path / f"r.v2{suffix}"
    made.touch()
    assert nsys.report(tmp_path / "r.v2") == made


# --- what a timeline holds ------------------------------------------------------------------------


def database(path: Path, **tables: list[tuple[str, int]]) -> Path:
    """Write a SQLite file: tables with one integer column each."""
    with sqlite3.connect(path) as connection:
        for name, rows in tables.items():
            column = rows[0][0] if rows else "unused"
            connection.execute(f"CREATE TABLE {name} ({column} INTEGER)")
            connection.executemany(f"INSERT INTO {name} VALUES (?)", [(v,) for _, v in rows])
    connection.close()
    return path


def event(*kinds: int) -> list[tuple[str, int]]:
    return [("eventType", kind) for kind in kinds]


def test_contents_of_an_export(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a b#?.sqlite",
        NVTX_EVENTS=event(59, 60, 70, 71, 34, 75, 33),
        CUPTI_ACTIVITY_KIND_KERNEL=[("start", 1)] * 3,
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[("start", 1)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[("start", 1)] * 5,
    )
    assert nsys.check(path, gpu=True) == profile_stats.Contents(ranges=4, kernels=4, api_calls=5)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "no NVTX ranges"),
        ({"NVTX_EVENTS": event(75, 34)}, "no NVTX ranges.*install nvtx==0.2.11"),
        ({"NVTX_EVENTS": event(59)}, "no kernels: the program did not use the GPU"),
        (
            {"NVTX_EVENTS": event(59), "CUPTI_ACTIVITY_KIND_RUNTIME": [("start", 1)]},
            "no kernels: CUDA was called",
        ),
    ],
)
def test_export_that_lacks_something(
    tables: dict[str, list[tuple[str, int]]], message: str, tmp_path: Path
) -> None:
    path = database(tmp_path / "r.sqlite", OTHER=[], **tables)
    with pytest.raises(NothingRecordedError, match=message):
        nsys.check(path, gpu=True)


def test_export_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="no such file"):
        nsys.check(tmp_path / "missing.sqlite")
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"neither database nor empty" * 100)
    with pytest.raises(
        CollectionError, match=r"not a profile in SQLite \(file is not a database\)"
    ):
        nsys.check(path)


def test_export_that_is_cut_off_or_still_written(tmp_path: Path) -> None:
    path = database(tmp_path / "r.sqlite", NVTX_EVENTS=[("eventType", 59)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(CollectionError, match=r"^\S+r\.sqlite: damaged or incomplete SQLite file"):
        nsys.check(path)
    path.write_bytes(whole)
    path.with_name("r.sqlite-journal").write_bytes(b"\xd9")
    with pytest.raises(CollectionError, match=r"some of its data is still in r\.sqlite-journal"):
        nsys.check(path)
    path.with_name("r.sqlite-journal").unlink()
    assert nsys.check(path).ranges == 1


def test_contents_of_an_nvprof_profile(tmp_path: Path) -> None:
    path = database(
        tmp_path / "p.nvprof",
        CUPTI_ACTIVITY_KIND_MARKER=[("flags", flags) for flags in (1, 2, 4, 2, 4)],
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL=[("start", 1)] * 3,
        CUPTI_ACTIVITY_KIND_KERNEL=[],
        CUPTI_ACTIVITY_KIND_DRIVER=[("start", 1)],
    )
    expected = profile_stats.Contents(ranges=2, kernels=3, api_calls=1)
    assert nvprof.check_timeline(path) == expected
    with pytest.raises(NothingRecordedError, match=r"\(its output: Warning: no GPU\)"):
        nvprof.check_timeline(tmp_path / "none", ["==7== Warning: no GPU", "loss 0.1"])


def test_a_timeline_of_nvprof_without_kernels(tmp_path: Path) -> None:
    path = database(
        tmp_path / "p.nvprof",
        CUPTI_ACTIVITY_KIND_MARKER=[("flags", flags) for flags in (2, 4)],
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL=[],
        CUPTI_ACTIVITY_KIND_KERNEL=[],
        CUPTI_ACTIVITY_KIND_DRIVER=[("start", 1)],
    )
    with pytest.raises(NothingRecordedError, match=r"p\.nvprof: holds no kernels"):
        nvprof.check_timeline(path)
