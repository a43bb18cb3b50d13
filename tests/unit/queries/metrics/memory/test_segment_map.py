"""The map of segments: blocks in the order of their addresses, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.patches import Rectangle
from pytest import MonkeyPatch

from drawing import collected, place_names, render
from made_memory import Ingested, block, segment, snapshot, write_pickle
from tbd_trace.query import Catalogue

PENDING: dict[str, Any] = {"state": "active_pending_free"}
SHOWN = ("segment_id", "offset_bytes", "bytes", "state", "blocks")


def asked(folder: Path, *segments: dict[str, Any], **parameters: str) -> pl.DataFrame:
    path = write_pickle(folder / "made.pickle", snapshot(segments))
    return Ingested(path).ask("segment_map", **parameters)


@pytest.mark.slow
def test_neighbours_of_a_state_are_one_run_with_their_rounding_at_its_end(tmp_path: Path) -> None:
    small = segment(0x1000, [block(512, 512), block(512, 500), block(1024), block(512, 100)])
    large = segment(0x9000, [block(2048), block(1024, 1000) | PENDING, block(1024, 1024)])
    found = asked(tmp_path, small, large)
    assert found.select(SHOWN).rows() == [
        (1, 0, 2048, "free", 1),
        (1, 2048, 1024, "pending", 1),
        (1, 3072, 1024, "live", 1),
        (2, 0, 1012, "live", 2),
        (2, 1012, 12, "rounding", None),
        (2, 1024, 1024, "free", 1),
        (2, 2048, 100, "live", 1),
        (2, 2148, 412, "rounding", None),
    ]
    assert found["segment_bytes"].unique(maintain_order=True).to_list() == [4096, 2560]
    assert set(found["reserved_bytes"]) == {4096 + 2560}


def test_the_largest_segments_come_first_and_the_rest_is_counted(tmp_path: Path) -> None:
    made = [segment(at, [block(size, size)]) for at, size in ((1, 512), (4096, 2048), (9000, 1024))]
    found = asked(tmp_path, *made, top="2")
    assert found.select(SHOWN).rows() == [(1, 0, 2048, "live", 1), (2, 0, 1024, "live", 1)]
    assert set(found.select("segments", "reserved_bytes").rows()) == {(3, 3584)}


@pytest.mark.slow
def test_bytes_in_no_block_are_not_free(tmp_path: Path) -> None:
    apart = [block(512, 512, address=4096 + 256), block(512, address=4096 + 1024)]
    made = segment(4096, apart, total_size=2048)
    assert asked(tmp_path, made).select(SHOWN).rows() == [
        (1, 0, 256, "unrecorded", None),
        (1, 256, 512, "live", 1),
        (1, 768, 256, "unrecorded", None),
        (1, 1024, 512, "free", 1),
        (1, 1536, 512, "unrecorded", None),
    ]


@pytest.mark.slow
def test_parts_add_up_to_each_segment_and_devices_are_apart(tmp_path: Path) -> None:
    made = [
        segment(4096 * at, [block(512, 512 - at), block(512), block(1024, 600)], device=at % 2)
        for at in range(1, 7)
    ]
    found = asked(tmp_path, *made)
    sums = found.group_by("device_id", "segment_id").agg(
        pl.col("bytes").sum(), pl.col("segment_bytes").first()
    )
    assert sums.height == 6
    assert (sums["bytes"] == sums["segment_bytes"]).all()
    assert set(found.select("segments", "reserved_bytes").rows()) == {(3, 3 * 2048)}


@pytest.mark.slow
def test_bars_begin_at_their_offsets_in_the_order_of_segments(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    drawn = collected(monkeypatch)
    first = segment(0x1000, [block(4096)])
    second = segment(0x9000, [block(512, 512), block(1024), block(512, 512)])
    plot = Catalogue().get("segment_map").plot
    assert plot is not None
    render(asked(tmp_path, first, second), plot, {"bytes": "byte"})
    (axes,) = drawn[0].axes
    bars = [p for p in axes.patches if isinstance(p, Rectangle)]
    assert place_names(axes) == ["segment 1", "segment 2"]
    lanes = sorted((round(p.get_y() + p.get_height() / 2), p.get_x(), p.get_width()) for p in bars)
    assert lanes == [(0, 0, 4), (1, 0, 0.5), (1, 0.5, 1), (1, 1.5, 0.5)]  # KiB


@pytest.mark.slow
def test_without_requested_sizes_rounding_is_not_known(tmp_path: Path) -> None:
    blocks = [{"size": 512, "state": "active_allocated"}, {"size": 512, "state": "inactive"}]
    made = {"device": 0, "address": 4096, "total_size": 1024, "stream": 0, "blocks": blocks}
    made |= {"allocated_size": 512, "active_size": 512, "segment_type": "small"}
    found = asked(tmp_path, made)
    assert found.select(SHOWN).rows() == [(1, 0, 512, "live", 1), (1, 512, 512, "free", 1)]
