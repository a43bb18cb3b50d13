"""Programs that stand in for profilers."""

from __future__ import annotations

from pathlib import Path

import pytest


def programs(directory: Path, monkeypatch: pytest.MonkeyPatch, **outputs: str) -> Path:
    """Make a directory of programs that print something, and nothing else, the PATH."""
    folder = directory / "programs"
    folder.mkdir()
    for name, output in outputs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{output}\nEND\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder
