"""Predictions of data-parallel training against reference rows beside the corpus of traces."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from corpus import reference_file
from fast import nightly
from network_model import TOY, write_layers
from tbd_trace.query import Catalogue, execute_on_file

SCHEMES = {
    "ddp_ring_overlap": "ddp",
    "ddp_ring_no_overlap": "serial",
    "ps_colocated_fifo_layer": "ps",
    "ps_colocated_p3_160kB": "p3",
}

pytestmark = pytest.mark.needs("reference")


def table(name: str) -> Path:
    return reference_file(f"network/model/{name}.csv")


def reference(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def asked(name: str, layers: Path, **parameters: object) -> list[dict[str, Any]]:
    texts = {key: str(value) for key, value in parameters.items()}
    result = execute_on_file(Catalogue().get(name), {"layers": str(layers), **texts})
    assert result is not None
    return result.frame.to_dicts()


def grouped(path: Path, *keys: str) -> dict[tuple[str, ...], list[dict[str, str]]]:
    groups = defaultdict(list)
    for row in reference(path):
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


TERMS = (
    "first_bucket_bytes", "bucket_bytes", "efficiency", "host_bytes_per_s", "latency_s",
    "framework_tail_s",
)  # fmt: skip


def terms(key: tuple[str, ...]) -> dict[str, object]:
    """Return parameters; the latency of these rows is that of a whole all-reduce."""
    first, bucket, efficiency, host, latency, tail = key
    return {
        "first_bucket_bytes": first,
        "bucket_bytes": bucket,
        "link_efficiency": efficiency,
        "host_bytes_per_s": host or 0,
        "all_reduce_s": latency,
        "tail_s": tail,
        "scheme": "ddp",
    }


def test_overlap_vectors(tmp_path: Path) -> None:
    rows = reference(reference_file("overlap_vectors.csv"))
    layers = write_layers(tmp_path / "toy3.csv", TOY)
    found = asked(
        "dp_speedup", layers, workers="1,2,4,8,16", bandwidth_gbit="1,5,10,25,100,400",
        latency_s=5e-6,
    )  # fmt: skip
    answers = {(r["scheme"], r["workers"], r["bandwidth_gbit"]): r for r in found}
    assert len(rows) == 120
    assert len(answers) == 150  # with fsdp, which has no vectors
    for row in rows:
        key = (SCHEMES[row["scheme"]], int(row["workers"]), float(row["gbit_s"]))
        assert answers[key]["iteration_s"] == pytest.approx(float(row["iter_s"]), abs=1e-9)
        assert answers[key]["exposed_s"] == pytest.approx(float(row["exposed_s"]), abs=1e-9)
        assert answers[key]["speedup"] == pytest.approx(float(row["speedup"]), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["convfc", "embfirst"])
def test_iterations(model: str) -> None:
    for key, rows in grouped(table(f"{model}_iter"), *TERMS).items():
        found = asked(
            "dp_speedup", table(f"{model}_layers"), workers="1,2,4,8",
            bandwidth_gbit="0.1,0.3,1,3,10,100", **terms(key),
        )  # fmt: skip
        answers = {(r["workers"], r["bandwidth_gbit"]): r for r in found}
        for row in rows:
            answer = answers[int(row["workers"]), float(row["gbit_s"])]
            assert answer["iteration_s"] == pytest.approx(float(row["iter_s"]), abs=1e-9)
            assert answer["speedup"] == pytest.approx(float(row["speedup"]), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["convfc", pytest.param("embfirst", marks=nightly)])
def test_smallest_bandwidths(model: str) -> None:
    for key, rows in grouped(table(f"{model}_min_bandwidth"), *TERMS).items():
        found = asked(
            "min_bandwidth", table(f"{model}_layers"),
            workers=",".join({row["workers"]: None for row in rows}),
            target_speedup=",".join({row["target_speedup"]: None for row in rows}), **terms(key),
        )  # fmt: skip
        answers = {(r["workers"], r["target_speedup"]): r["min_gbit_s"] for r in found}
        for row in rows:
            answer = answers[int(row["workers"]), float(row["target_speedup"])]
            if row["min_gbit_s"] == "infinite":
                assert answer is None
            else:
                assert answer == pytest.approx(float(row["min_gbit_s"]), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("model", ["convfc", "embfirst"])
def test_communication_of_layers(model: str) -> None:
    rows = reference(table(f"{model}_comm_overhead"))
    found = asked(
        "comm_overhead", table(f"{model}_layers"), latency_s=5e-6,
        workers=",".join(sorted({row["workers"] for row in rows})),
        bandwidth_gbit=",".join(sorted({row["gbit_s"] for row in rows})),
    )  # fmt: skip
    answers = {(r["workers"], r["bandwidth_gbit"], r["layer"]): r for r in found}
    assert len(answers) == len(rows)
    for row in rows:
        answer = answers[int(row["workers"]), float(row["gbit_s"]), row["layer"]]
        assert answer["communication_s"] == pytest.approx(float(row["comm_s"]), abs=1e-9)
        assert answer["ratio"] == pytest.approx(float(row["ratio"]), abs=1e-6)
        share = float(row["gradient_share"])
        assert answer["gradient_share_pct"] / 100 == pytest.approx(share, abs=1e-6)
