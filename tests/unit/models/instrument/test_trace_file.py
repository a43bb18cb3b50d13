"""Compression of a trace."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from tbd_models.instrument.trace_file import compress


@pytest.mark.parametrize("has_isal", [True, False])
def test_the_content_is_the_same(
    has_isal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_isal:
        monkeypatch.setitem(sys.modules, "isal", None)
    content = b"".join(b'{"ts": %d}\n' % n for n in range(200_000))
    (tmp_path / "a").write_bytes(content)
    compress(tmp_path / "a", tmp_path / "b.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["b.gz"]
    assert gzip.decompress((tmp_path / "b.gz").read_bytes()) == content
    assert (tmp_path / "b.gz").stat().st_size < len(content) / 3
