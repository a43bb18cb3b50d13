"""Communication of real traces: equal to tables made with Python's ``json`` and ``sqlite3``."""

from __future__ import annotations

import pytest

from corpus import each_row, reference_rows
from fast import one_in
from real_traces import Traces

NETWORK = "network/oracle"
WHOLE = {"window": "trace"}


@pytest.mark.slow
@each_row("kineto/comm.csv")
def test_communication_kernels_of_torch_traces(traces: Traces, row: dict[str, str]) -> None:
    name = f"kineto/{row['file']}"
    # The reference knows NCCL only; this trace has 73 all-reduces through multicast memory, too.
    if "b200" in name:
        statement = "SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM collective WHERE "
        [nccl] = traces.sql(name, f"{statement} name ILIKE '%nccl%'").rows()
        assert nccl == (int(row["kernels"]), int(row["total_ns"]))
        [others] = traces.sql(name, f"{statement} name LIKE '%multimem_all_reduce_kernel%'").rows()
        assert others[0] == 73
        return
    frame = traces.ask(name, "comm_overlap", WHOLE)
    columns = ("device_id", "collectives", "total_ns", "communication_ns", "overlapped_ns")
    wanted = ("device", "kernels", "total_ns", "union_ns", "overlapped_with_compute_ns")
    assert frame[list(columns)].rows() == [tuple(int(row[name]) for name in wanted)]
    assert frame["exposed_ns"].item() == int(row["union_ns"]) - int(
        row["overlapped_with_compute_ns"]
    )


@pytest.mark.slow
@each_row(f"{NETWORK}/nsys_rank_comm.csv")
def test_communication_kernels_of_nsys_traces(traces: Traces, row: dict[str, str]) -> None:
    frame = traces.ask(f"nsys/{row['file']}", "comm_overlap", WHOLE)
    [found] = [one for one in frame.to_dicts() if one["device_id"] == int(row["device"])]
    wanted = {
        "collectives": "nccl_kernels", "elapsed_ns": "window_ns", "total_ns": "comm_sum_ns",
        "communication_ns": "comm_union_ns", "overlapped_ns": "overlap_ns",
        "exposed_ns": "exposed_ns",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == {
        name: int(row[column]) for name, column in wanted.items()
    }
    assert found["overlap_pct"] == pytest.approx(float(row["overlap_pct"]), abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("window", one_in(3, ["steady", "iterations", "trace"]))
def test_same_parts_as_the_step_breakdown(traces: Traces, window: str) -> None:
    name = "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__4gpu_baseline.qdrep.exp2022.4.sqlite"
    for by in ("trace", "iteration"):
        setting = {"window": window, "by": by}
        breakdown = traces.ask(name, "step_breakdown", setting)
        overlap = traces.ask(name, "comm_overlap", setting)
        columns = ["iteration", "elapsed_ns", "communication_ns", "overlap_pct"]
        assert overlap[columns].rows() == breakdown[columns].rows()
        assert overlap["exposed_ns"].to_list() == breakdown["exposed_communication_ns"].to_list()


@pytest.mark.slow
def test_expert_parallelism_is_nearly_hidden(traces: Traces) -> None:
    # 113.4 ms of dispatch and combine, of which 4.19 ms are exposed in 129.0 ms.
    frame = traces.ask("kineto/deepseek-ai_profile-data__train.json.gz", "comm_overlap", WHOLE)
    columns = ["communication_ns", "exposed_ns", "elapsed_ns"]
    assert frame[columns].rows() == [(113_440_000, 4_190_000, 129_012_000)]
    kinds = traces.sql(
        "kineto/deepseek-ai_profile-data__train.json.gz",
        "SELECT kind, count(*) FROM collective GROUP BY ALL ORDER BY ALL",
    )
    assert kinds.rows() == [("combine", 8), ("dispatch", 8), ("notify", 20)]


@pytest.mark.slow
def test_bytes_of_nccl_kernels(traces: Traces) -> None:
    wanted = [
        (row["collective"], int(row["bytes"]), int(row["group_size"]), float(row["dur_us"]))
        for row in reference_rows(f"{NETWORK}/kineto_collectives.csv")
        if row["set"] == "hta_nccl_data"
    ]
    found = traces.sql(
        "jobs/hta_nccl_parser_config__nccl_data.json.gz",
        "SELECT replace(kind, '_', ''), bytes, group_size, (end_ns - start_ns) / 1000 "
        "FROM collective ORDER BY collective_id",
    )
    assert len(wanted) == 21
    assert found.rows() == wanted


def test_collectives_of_nsys_take_their_kind_from_the_range(traces: Traces) -> None:
    name = "nsys/GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_before.sqlite"
    labelled = [
        (int(row["device"]), int(row["start_ns"]), "all_to_all" in row["nvtx"])
        for row in reference_rows(f"{NETWORK}/nsys_collective_calls.csv")
        if row["file"] in name
    ]
    found = traces.sql(
        name,
        "SELECT device_id, start_ns, kind = 'all_to_all' FROM collective ORDER BY ALL",
    )
    assert len(labelled) == 66
    assert found.rows() == sorted(labelled)


@pytest.mark.slow
@each_row(f"{NETWORK}/kineto_rank_comm.csv")
def test_collectives_on_the_host(traces: Traces, row: dict[str, str]) -> None:
    if row["source"] != "gloo cpu range":
        return
    folder = {"gloo_2rank": "gloo_ddp_2rank", "gloo_4rank_straggler": "gloo_ddp_4rank_straggler"}
    name = f"jobs/{folder[row['set']]}/{row['file']}"
    frame = traces.ask(name, "comm_overlap")
    columns = ["rank", "collectives", "total_ns", "communication_ns", "exposed_ns", "evidence"]
    union = round(1000 * float(row["comm_union_us"]))
    [found] = frame[columns].rows()
    # The reference adds numbers of microseconds as doubles.
    assert found[3] == pytest.approx(union, abs=2)
    total = round(1000 * float(row["comm_sum_us"]))
    assert found[:3] == (int(row["rank_in_file"]), int(row["comm_events"]), total)
    assert found[4:] == (None, "host range")
