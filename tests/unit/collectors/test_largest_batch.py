"""The largest batch that fits a GPU: memory of products, search, and its result by other ways."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tbd_trace
from fast import nightly
from tbd_collectors.largest_batch import memory_bytes, search
from tbd_collectors.process import CollectionError
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query import Catalogue
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.resources import data
from tbd_trace.sources.torch_memory.caching_allocator import CachingAllocator

GIB, MIB = 1 << 30, 1 << 20


# Memory of products.


@pytest.mark.parametrize(("text", "size"), [("11", 11 * GIB), ("0.5", GIB // 2), ("1e1", 10 * GIB)])
def test_memory_as_a_number(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("24GB", 24 * 1024), ("24 GiB", 24 * 1024), ("0.5gb", 512), ("80MB", 80)],
)
def test_memory_with_a_unit(text: str, mebibytes: int) -> None:
    assert memory_bytes(text) == mebibytes * MIB


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e30", "11TB", "GB", "", "Tesla M40"])
def test_no_memory(text: str) -> None:
    with pytest.raises(UsageError, match="memory in GB, such as 11"):
        memory_bytes(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=[nightly] if first else []) for first in range(4)]
)
def test_products_as_by_the_query(tmp_path: Path, first: int) -> None:
    """A recording whose bytes are the memory of the product fits with no byte to spare.

    Args:
        first: the first of every fourth name, each of which takes a question.
    """
    with (data() / "gpu_products.csv").open(encoding="utf-8") as file:
        products = list(csv.DictReader(file))
    log = tmp_path / "bs1" / "memory.jsonl"
    for size in (1, 2):
        _write(tmp_path / f"bs{size}", size, size * MIB)
    assert log.is_file()
    sweep = tbd_trace.open(tmp_path / "bs1", tmp_path / "bs2")
    query = Catalogue().get("memory_vs_batch")
    names = {row["example_name"] for row in products} | {"v100-pcie-32gb", "RTX 3060", "M40 24GB"}
    with SharedSession(sweep.database, sweep.trace_ids) as session:
        for name in sorted(names)[first::4]:
            asked = {"gpu": name, "context_mb": "0"}
            try:
                size = memory_bytes(name)
            except UsageError:
                with pytest.raises(CannotAnswerError, match="is unknown"):
                    session.run(query, asked)
                continue
            # One sample holds 1 MiB, so the largest batch is the memory in MiB.
            found = session.run(query, asked).frame["largest_batch"]
            assert set(found) == {size // MIB}, name


def _write(folder: Path, batch: int, size: int) -> None:
    folder.mkdir()
    header = {"format": "tbd-trace memory", "version": 1, "framework": "tensorflow", "device": 0}
    event = {"action": "alloc", "address": 1, "bytes": size, "class": "feature_map"}
    lines = [json.dumps(header), json.dumps(event)]
    (folder / "memory.jsonl").write_text("\n".join(lines) + "\n")
    capture = {"format_version": 1, "capture_id": str(batch), "model": "net", "batch_size": batch}
    capture |= {"framework": "tensorflow", "files": [{"file": "memory.jsonl"}]}
    (folder / "capture.json").write_text(json.dumps(capture))


# The search.


@given(
    st.integers(0, 200), st.lists(st.integers(1, 300), min_size=1, max_size=3), st.integers(1, 9)
)
def test_a_growing_size_is_searched_in_few_steps(
    largest: int, first: list[int], slope: int
) -> None:
    asked: list[int] = []

    def peak_bytes(batch: int) -> int:
        asked.append(batch)
        return slope * batch

    known = {batch: slope * batch for batch in first}
    assert search(known, peak_bytes, slope * largest) == largest
    assert {largest, largest + 1} - {0} <= known.keys()
    assert len(asked) == len(set(asked)) <= 18
    assert set(first).isdisjoint(asked)


@pytest.mark.slow
@given(st.lists(st.integers(0, 10), min_size=40, max_size=40), st.integers(1, 30))
def test_a_falling_size_still_gives_neighbours(noise: list[int], first: int) -> None:
    def peak_bytes(batch: int) -> int:
        return 3 * batch + (noise[batch] if batch < 40 else 0)

    largest = search({first: peak_bytes(first)}, peak_bytes, 60)
    assert largest == 0 or peak_bytes(largest) <= 60
    assert peak_bytes(largest + 1) > 60


def test_a_search_without_end() -> None:
    with pytest.raises(CollectionError, match="a batch of 16,777,216 still fits"):
        search({1: 5}, lambda _: 5, 10)


# The command.


def _command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tbd_trace", "collect", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("resnet50", "--memory"), "--largest-batch needs --memory --estimate"),
        (("resnet50", "--memory", "--estimate", "--device", "cpu"), "use --framework pytorch"),
        (("--suite", "--memory", "--estimate"), "needs one model of the suite"),
        (("resnet50", "--memory", "--estimate", "--largest-batch", "0.4"), "fills the device"),
    ],
)
def test_what_cannot_be_searched(words: tuple[str, ...], message: str) -> None:
    done = _command("--largest-batch", "11", *words)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def _peak_reserved(tmp_path: Path, batch: int) -> int:
    from tbd_models.pytorch import memory
    from tbd_models.registry import find, implementation
    from tbd_models.settings import Settings

    model = find("transformer")
    log = tmp_path / f"{batch}.jsonl"
    build = implementation(model, "pytorch").workload
    settings = Settings(batch_size=batch, device="cuda")
    memory.estimated(build, model.variant(None, "pytorch").small, settings, log)
    allocator, blocks = CachingAllocator(), {}
    for line in log.read_text().splitlines()[1:]:
        event = json.loads(line)
        if event["action"] == "alloc":
            blocks[event["address"]] = allocator.allocate(event["bytes"])
        elif event["action"] == "free":
            allocator.free(blocks.pop(event["address"]))
    return allocator.peak_reserved_bytes


@pytest.mark.slow
@pytest.mark.nightly
def test_the_found_batch_fits_and_the_next_does_not(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    available, outside = 4, 500  # MiB
    gigabytes = str((available + outside) / 1024)
    sweep = tmp_path / "sweep"
    done = _command(
        *("transformer", "--scale", "small", "--memory", "--estimate", "--batch-size", "32,48"),
        *("--largest-batch", gigabytes, "--output", sweep),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    traces = tbd_trace.open(*sorted(sweep.iterdir()))
    found = traces.query("memory_vs_batch", memory_gb=float(gigabytes))
    ((largest, evidence),) = set(found.select("largest_batch", "largest_evidence").rows())
    assert evidence == "simulated"
    assert f"largest batch {largest} of 0.004 GB, simulated" in done.stderr.replace("\n", " ")
    assert _peak_reserved(tmp_path, largest) <= available * MIB
    assert _peak_reserved(tmp_path, largest + 1) > available * MIB


@pytest.mark.slow
def test_a_gpu_too_small_for_one_sample(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = _command(
        *("transformer", "--scale", "small", "--memory", "--estimate", "--batch-size", "2"),
        *("--largest-batch", "0.49", "--output", tmp_path / "sweep"),
    )
    assert done.returncode == 12
    assert "largest batch 0 of 0.002 GB, simulated: 1 holds" in done.stderr.replace("\n", " ")
    # The captures hold the simulated allocations of a device.
    captures = sorted((tmp_path / "sweep").iterdir())
    peaks = tbd_trace.open(*captures).query("memory_peak")
    assert peaks["allocator"].to_list() == ["torch"] * 2
    assert all(peaks["peak_reserved_bytes"] > peaks["peak_requested_bytes"])
