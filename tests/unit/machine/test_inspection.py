"""What doctor finds, on machines made up for the purpose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tbd_trace.machine import inspection


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory that is the whole PATH."""
    directory = tmp_path / "opt" / "target-linux-x64"
    directory.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{directory}")
    monkeypatch.delenv("QUADD_INSTALL_DIR", raising=False)
    return directory


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory that stands for /proc."""
    directory = tmp_path / "proc"
    directory.mkdir()
    monkeypatch.setattr(inspection, "_PROC", directory)
    return directory


def program(directory: Path, name: str, output: str, code: int = 0) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{output}\nEND\nexit {code}\n")
    path.chmod(0o755)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def importer(home: Path) -> None:
    write(home / "host-linux-x64" / "QdstrmImporter", "")


@pytest.mark.slow
def test_bare_machine(programs: Path, proc: Path) -> None:
    findings = {finding.check: finding for finding in inspection.examine()}
    for check in ("nsys", "nvprof", "ncu", "gpu", "hardware counters", "cpu sampling"):
        assert findings[check].status == "missing"
    for check in ("nsys", "nvprof", "ncu"):
        assert "install" in findings[check].advice
    assert findings["python"].status == "ok"
    assert findings["duckdb"].found[0].isdigit()


def test_nsys_with_its_importer_beside_it(programs: Path) -> None:
    program(programs, "nsys", "NVIDIA Nsight Systems version 2024.2.3.38-242334140272v0")
    importer(programs.parent)
    found = inspection.nsys()
    assert (found.status, found.advice) == ("ok", "")
    assert found.found.startswith("2024.2.3.38 (")


def test_nsys_finds_its_importer_through_a_link(programs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "nsight" / "target-linux-x64"
    elsewhere.mkdir(parents=True)
    program(elsewhere, "nsys", "NVIDIA Nsight Systems version 2022.4.2.1-df9881f")
    importer(elsewhere.parent)
    (programs / "nsys").symlink_to(elsewhere / "nsys")
    assert inspection.nsys().status == "ok"


def test_nsys_of_debian_needs_nothing_from_the_user(programs: Path, tmp_path: Path) -> None:
    """The program lies apart from its importer; a link to it beside the importer shows where."""
    apart = tmp_path / "arch" / "target-linux-x64"
    apart.mkdir(parents=True)
    program(apart, "nsys", "NVIDIA Nsight Systems version 2022.4.2.1-df9881f")
    home = tmp_path / "lib" / "nsight-systems"
    importer(home)
    (home / "target-linux-x64").symlink_to(apart)
    (programs / "nsys").symlink_to(home / "target-linux-x64" / "nsys")
    found = inspection.nsys()
    assert (found.status, found.advice) == ("ok", "")
    assert found.found.endswith(f"importer {home / 'host-linux-x64' / 'QdstrmImporter'}")


def test_nsys_without_its_importer(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs, "nsys", "NVIDIA Nsight Systems version 2022.4.2.1-df9881f")
    found = inspection.nsys()
    assert found.status == "limited"
    assert "export QUADD_INSTALL_DIR=DIRECTORY" in found.advice
    importer(tmp_path / "elsewhere")
    monkeypatch.setenv("QUADD_INSTALL_DIR", str(tmp_path / "elsewhere"))
    assert inspection.nsys().status == "ok"


def test_nvprof_and_ncu_versions(programs: Path) -> None:
    program(
        programs,
        "nvprof",
        "nvprof: NVIDIA (R) Cuda command line profiler\n"
        "Copyright (c) 2012 - 2022 NVIDIA Corporation\nRelease version 11.8.87 (21)",
    )
    program(programs, "ncu", "broken", code=1)
    assert inspection.nvprof().found.startswith("11.8.87 (")
    assert inspection.ncu().found.startswith("version unknown (")


def test_gpus_are_listed_one_by_one(programs: Path, proc: Path) -> None:
    program(programs, "nvidia-smi", "NVIDIA A100-SXM4-40GB, 535.54.03\nNVIDIA H100 PCIe, 535.54.03")
    assert [finding.found for finding in inspection.gpus()] == [
        "NVIDIA A100-SXM4-40GB, driver 535.54.03",
        "NVIDIA H100 PCIe, driver 535.54.03",
    ]


def test_driver_without_a_gpu(programs: Path, proc: Path) -> None:
    write(
        proc / "driver" / "nvidia" / "version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023",
    )
    (found,) = inspection.gpus()
    assert found.status == "limited"
    assert found.found.startswith("driver 535.54.03")


@pytest.mark.parametrize(
    ("text", "user", "status"),
    [
        ("RmProfilingAdminOnly: 0\n", 1000, "ok"),
        ("Other: 1\nRmProfilingAdminOnly: 1\n", 0, "ok"),
        ("Other: 0\nRmProfilingAdminOnly: 1\n", 1000, "limited"),
        ("Other: 0\n", 0, "limited"),
    ],
)
def test_who_may_read_counters(
    proc: Path, monkeypatch: pytest.MonkeyPatch, text: str, user: int, status: str
) -> None:
    write(proc / "driver" / "nvidia" / "params", text)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert inspection.counters().status == status


@pytest.mark.parametrize(("level", "status"), [("-1", "ok"), ("2", "ok"), ("4", "limited")])
def test_cpu_sampling(proc: Path, level: str, status: str) -> None:
    write(proc / "sys" / "kernel" / "perf_event_paranoid", f"{level}\n")
    found = inspection.cpu_sampling()
    assert found.status == status
    assert level in found.found


def test_storage_of_a_place_that_is_not_there_yet(tmp_path: Path) -> None:
    place = tmp_path / "not" / "yet" / "x.duckdb"
    found = inspection.storage("database", place, "not made yet")
    assert found.status == "ok"
    assert "GiB free" in found.found
    assert not place.parent.exists()
