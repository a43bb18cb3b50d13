"""Packages that another interpreter has installed, listed without importing them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tbd_trace.errors import UsageError
from tbd_trace.machine import inspection


def _python(directory: Path, *paths: Path) -> str:
    """Return an interpreter that has these places alone."""
    path = directory / "python"
    joined = ":".join(map(str, paths))
    path.write_text(f'#!/bin/sh\nPYTHONPATH={joined} exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return str(path)


def _package(directory: Path, name: str, version: str | None) -> Path:
    place = directory / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    if version is not None:
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (place / "METADATA").write_text(text)
    return directory


@pytest.mark.slow
def test_packages_of_another_interpreter(tmp_path: Path) -> None:
    place = _package(tmp_path / "a", "torch", "2.4.1+cu121")
    _package(place, "nvtx", "0.2.10")
    _package(place, "left_over", None)  # as an interrupted pip leaves it
    older = _package(tmp_path / "b", "torch", "1.0")
    python = _python(tmp_path, place, older)
    found = inspection.interpreter(python)
    version = ".".join(map(str, sys.version_info[:3]))
    assert found == {"python": version, "torch": "2.4.1+cu121", "nvtx": "0.2.10"}
    pytorch = inspection.framework("pytorch", python)
    assert (pytorch.status, pytorch.advice) == ("ok", "")
    assert pytorch.found == f"torch 2.4.1+cu121, nvtx 0.2.10 ({python})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "package", "version"),
    [
        ("pytorch", "torch", "2.4.1"),
        ("tensorflow", "tensorflow", "2.16.1"),
        ("tensorflow", "tensorflow-cpu", "2.16.1"),
        ("mxnet", "mxnet", "1.9.1"),
        ("mxnet", "mxnet-cu112", "1.9.1"),
    ],
)
def test_frameworks_of_another_interpreter(
    tmp_path: Path, framework: str, package: str, version: str
) -> None:
    place = _package(tmp_path / "a", package.replace("-", "_"), version)
    python = _python(tmp_path, place)
    for name in inspection.FRAMEWORKS:
        found = inspection.framework(name, python)
        if name == framework:  # there, but without nvtx
            assert (found.status, found.found) == ("limited", f"{package} {version} ({python})")
            assert (
                f"nvtx is not installed: pip install nvtx=={inspection.NVTX_VERSION}"
                in found.advice
            )
        else:
            assert (found.status, found.found) == ("missing", f"not installed ({python})")
            assert f"tbd-trace env create {name}" in found.advice


def test_an_nvtx_that_records_nothing_is_reported(tmp_path: Path) -> None:
    place = _package(tmp_path / "a", "nvtx", "0.2.12")
    _package(place, "torch", "2.4.1")
    pytorch = inspection.framework("pytorch", _python(tmp_path, place))
    assert pytorch.status == "limited"
    assert "nsys does not see this nvtx" in pytorch.advice
    assert f"nvtx=={inspection.NVTX_VERSION}" in pytorch.advice


def test_a_framework_in_what_does_not_run(tmp_path: Path) -> None:
    found = inspection.framework("mxnet", str(tmp_path / "gone"))
    assert (found.status, found.found) == ("missing", f"{tmp_path}/gone does not run")
    assert found.advice == "tbd-trace env create mxnet --force"


@pytest.mark.parametrize("script", [None, "exit 1", "echo 1", "echo hello", "true", "echo '{}'"])
def test_what_is_no_interpreter_is_refused(tmp_path: Path, script: str | None) -> None:
    path = tmp_path / "python"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    with pytest.raises(
        UsageError, match="not a working Python interpreter; set another with --python"
    ):
        inspection.interpreter(str(path))
