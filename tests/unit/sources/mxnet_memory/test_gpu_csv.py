"""Memory profiles of MXNet: classes of GPU allocations, counters, damaged files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from corpus import corpus_file, corpus_folder, reference_rows
from made_mxnet_memory import HEADER, counter
from tbd_trace.errors import InputError
from tbd_trace.sources.mxnet_memory.counter import is_memory_counter, memory_counter_events
from tbd_trace.sources.mxnet_memory.gpu_csv import gpu_memory_events, is_gpu_memory_csv

FILES = {
    "ResNet-50 MXNet batch 32 over 2 GPUs (16/GPU) 3x224x224": (
        "mxnet_gpu_memory_resnet-gpu_memory_profile-L_50-B_32.csv"
    ),
    "BERT finetune_classifier gluon-nlp": "mxnet_gpu_memory_finetune_classifier.csv",
}
CLASS_OF_GOLDEN = {
    "feature_maps_and_their_gradients": "feature_map",
    "weight_gradients": "weight_gradient",
    "weights": "weight",
    "optimizer_state": "optimizer_state",
    "workspace": "workspace",
    "aux_state": "buffer",
    "gradient_communication": "communication",
    "cuda_context_untracked": "untracked",
    "model_inputs": "input",
    "input_pipeline": "image_io",
}


def golden_class(row) -> str:
    return "image_io" if ":image_io:" in row["name"] else row["class"]


def test_breakdown_of_real_profiles() -> None:
    found = {}
    for workload, file in FILES.items():
        for row in gpu_memory_events(corpus_file(f"memory/{file}")):
            key = workload, row["device_id"], golden_class(row)
            sums = found.setdefault(key, [0, 0, 0, 0])
            new = row["operation"] == "allocate"
            sums[0] += 1
            sums[1] += row["requested_bytes"] * new
            sums[2] += row["allocated_bytes"] * new
            sums[3] += row["allocated_bytes"] * (not new)
    expected = {
        (row["workload"], int(row["device"]), CLASS_OF_GOLDEN[row["data_class"]]): [
            int(row[column])
            for column in ("allocations", "requested_bytes", "actual_bytes", "reused_bytes")
        ]
        for row in reference_rows("mxnet_memory_breakdown.csv")
    }
    assert found == expected


def test_share_of_feature_maps_by_denominator() -> None:
    four = ("feature_map", "weight", "weight_gradient", "workspace")
    further = {
        "D1": (),
        "D2": ("optimizer_state",),
        "D3": ("buffer", "input"),
        "D4": ("communication",),
        "D5": ("image_io",),
        "D6": ("untracked",),
    }
    sizes = {}
    for workload, file in FILES.items():
        for row in gpu_memory_events(corpus_file(f"memory/{file}")):
            if row["operation"] == "allocate":
                sums = sizes.setdefault((workload, row["device_id"]), Counter())
                sums[golden_class(row)] += row["allocated_bytes"]
    rows = reference_rows("feature_map_share_sensitivity.csv")
    for row in rows:
        wanted = list(four)
        for name, classes in further.items():
            wanted += classes
            if row["denominator"].startswith(name):
                break
        sums = sizes[row["workload"], int(row["device"])]
        total = sum(sums[name] for name in wanted)
        assert total == int(row["denominator_bytes"])
        assert round(100 * sums["feature_map"] / total, 2) == float(row["share_pct"])
    shares = {row["denominator"][:2]: row["share_pct"] for row in rows[6:12]}
    assert (shares["D1"], shares["D6"]) == ("84.43", "55.89")


def test_real_files_are_detected() -> None:
    for path in corpus_folder("memory").iterdir():
        head = path.read_bytes()[:65_536]
        assert is_gpu_memory_csv(head) == path.name.startswith("mxnet_gpu_memory")
        assert is_memory_counter(head) == path.name.startswith("mxnet_191")


def test_real_counter() -> None:
    rows = memory_counter_events(corpus_file("memory/mxnet_191_cpu_memory_counter.json"))
    totals = [row["total_bytes"] for row in rows]
    assert (len(rows), totals[0], max(totals)) == (60, 262_144, 1_087_500)
    assert rows[0]["operation"] == "snapshot"
    times = [row["timestamp_ns"] for row in rows]
    assert times == sorted(times)
    change = {"allocate": 1, "free": -1}
    running = totals[0]
    for row in rows[1:]:
        running += change[row["operation"]] * row["allocated_bytes"]
        assert running == row["total_bytes"]
    assert {(row["device_type"], row["device_id"]) for row in rows} == {("cpu", 0)}


def events(tmp_path: Path, *lines: str) -> list[dict]:
    path = tmp_path / "gpu_memory.csv"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return gpu_memory_events(path)


def test_classes_and_layers(tmp_path: Path) -> None:
    rows = events(
        tmp_path,
        '"net:in_arg:conv0_weight","100","0","4096","0"',
        '"net:in_arg:data","100","0","4096","0"',
        '"net:in_arg:softmax_label","4","0","4096","0"',
        '"net:arg_grad:conv0_weight","100","0","4096","0"',
        '"net:aux_state:bn0_moving_mean","8","0","4096","0"',
        '"net:kvstore:pull:conv0_weight","100","0","4096","0"',
        '"net:kvstore:push:conv0_weight","100","0","4096","0"',
        '"net:comm_dev:copy_buf","100","0","4096","0"',
        '"net:image_io:data","100","0","100","0"',
        '"net:conv0_fwd_backward","50","0","4096","1"',
        '"<unk>:unknown","50","0","4096","0"',
        '"updater:optimizer_state:_zeros","100","0","4096","0"',
        '"resource:temp_space (x.h +7)","9","0","4096","0"',
        '"nvml_amend","900","1","900","0"',
    )
    assert [(row["class"], row["layer"]) for row in rows] == [
        ("weight", "conv0"),
        ("input", None),
        ("input", None),
        ("weight_gradient", "conv0"),
        ("buffer", "bn0"),
        ("communication", None),  # the weights are bound as arguments
        ("communication", None),
        ("communication", None),
        ("input", None),
        ("feature_map", "conv0"),
        ("feature_map", None),
        ("optimizer_state", None),
        ("workspace", None),
        ("untracked", None),
    ]
    assert [row["sequence"] for row in rows] == list(range(14))
    assert [row["operation"] for row in rows].count("reuse") == 1
    assert rows[-1]["device_id"] == 1
    assert rows[9]["requested_bytes"] == 50


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('"net:conv0","100","0","4096"', "line 3 is not an allocation"),
        ('"net:conv0","100","0","4096","2"', "line 3 is not an allocation"),
        ('"net:conv0","-1","0","4096","0"', "line 3 is not an allocation"),
        ('"net:conv0","1e5","0","4096","0"', "line 3 is not an allocation"),
        ('"net:conv0","99999999999999999999","0","4096","0"', "line 3 is not an allocation"),
        ('"net:conv0","100","0","40', "line 3 is not an allocation"),
        ("", "line 3 is not an allocation"),
    ],
)
def test_damaged_profile(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        events(tmp_path, '"net:conv0","100","0","4096","0"', line)


def test_profile_without_allocations_or_header(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(HEADER)
    with pytest.raises(InputError, match="no allocations; profile a run"):
        gpu_memory_events(path)
    path.write_bytes(b"\xff\xfe" + HEADER.encode())
    with pytest.raises(InputError):
        gpu_memory_events(path)
    path.write_text("a,b\n")
    assert not is_gpu_memory_csv(b"a,b\n")
    with pytest.raises(InputError, match="not a GPU memory profile"):
        gpu_memory_events(path)


def test_counters_of_several_devices(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    gpu, pinned = "Memory: gpu/1", "Memory: cpu pinned/"
    made = [counter(9, gpu, 100), counter(5, gpu, 300), counter(7, pinned, 8), counter(8, gpu, 300)]
    path.write_text(json.dumps({"traceEvents": [{"ph": "M", "name": "process_name"}, *made]}))
    assert is_memory_counter(path.read_bytes())
    rows = memory_counter_events(path)
    columns = ("timestamp_ns", "device_type", "device_id", "operation", "allocated_bytes")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        (5000, "gpu", 1, "snapshot", None),
        (7000, "cpu pinned", 0, "snapshot", None),
        (8000, "gpu", 1, "allocate", 0),
        (9000, "gpu", 1, "free", 200),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"traceEvents": 3}', '{"traceEvents": [3]}', "[" * 100_000,
     json.dumps({"traceEvents": [counter(1, "Memory: cpu/0", None)]}),
     json.dumps({"traceEvents": [counter(1, "Memory: cpu/0", float("inf"))]}),
     json.dumps({"traceEvents": [{"ph": "C", "name": "Memory: cpu/0"}]})],
)  # fmt: skip
def test_damaged_counters(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InputError, match="incomplete or damaged JSON"):
        memory_counter_events(path)
    path.write_text('{"traceEvents": []}')
    with pytest.raises(InputError, match="profile_memory=True"):
        memory_counter_events(path)
