"""List the steps, most valuable first."""

from __future__ import annotations

from gpu_check.answers import cell, fact, query, total
from gpu_check.families import (
    STREAMS,
    busy_ms,
    by_nsys,
    checkpointed,
    doctor,
    estimated,
    graph_launches,
    kernels_of,
    model,
    occupancy_difference,
    pair,
    product_flop,
    resnet,
    streams,
    swept,
    train,
    trained,
)
from gpu_check.step import GPU, NCU, NSYS, Step, at_least, between, equal, near

_SMALL = "--batch-size {train_batch} --width {train_width} --depth {train_depth}"
_SWEPT_MODEL = "resnet50"
_PARAMETERS = 25_557_032  # of ResNet-50, by its authors' code: 4 bytes each, three times with SGD

STEPS: tuple[Step, ...] = (
    Step(
        "doctor",
        30,
        ("{tbd} doctor",),
        (
            equal("PyTorch", doctor("pytorch"), "ok", needs_gpu=False),
            equal("the GPU", doctor("gpu"), "ok"),
        ),
        needs=(),
    ),
    resnet("resnet50-fp32", "--precision fp32"),
    resnet("resnet50-tf32", "--precision tf32"),
    resnet("resnet50-amp", "--precision mixed"),
    model("bert-fp32", "bert --batch-size {bert_batch}"),
    model("bert-amp", "bert --batch-size {bert_batch} --precision mixed"),
    model("llm-amp", "llm --batch-size {llm_batch} --precision mixed"),
    model(
        "llm-checkpointing",
        "llm --batch-size {llm_batch} --precision mixed --activation-checkpointing",
        at_least("time of recomputation, ns", checkpointed, 1),
    ),
    train("compile", f"{_SMALL} --execution compile", limit_s=90),
    train(
        "cuda-graph",
        f"{_SMALL} --execution graph",
        at_least("launches of graphs", graph_launches, 2),
    ),
    Step(
        "memory-snapshot",
        45,
        ("{program}/snapshot.py",),
        (
            near(
                "peak by memory_peak, bytes",
                cell("memory_peak", "peak_requested_bytes", "snapshot.pickle"),
                fact("facts.json", "requested"),
                1,
            ),
            near(
                "peak of the allocator, bytes",
                cell("memory_peak", "peak_reserved_bytes", "snapshot.pickle"),
                fact("facts.json", "reserved"),
                1,
            ),
            near(
                "leak by memory_leak, bytes per step",
                cell("memory_leak", "growth_bytes_per_iteration", "snapshot.pickle"),
                fact("facts.json", "leaked_per_step"),
                5,
            ),
        ),
        ("snapshot.pickle",),
    ),
    Step(
        "nsys",
        100,
        (
            f"{{program}}/record_nsys.py --nsys {{nsys}} --device {{device}} {_SMALL}",
            trained("cap", "torch.json", _SMALL),
        ),
        (
            at_least("ranges", by_nsys("nvtx_ranges"), 1, needs_gpu=False),
            at_least("kernels", by_nsys("kernels"), 1),
            near(
                "time per kernel as by torch.profiler, ns",
                lambda a: by_nsys("kernel_ns")(a) / by_nsys("kernels")(a),
                lambda a: kernels_of("cap")(a) / cell("trace_info", "kernels", "cap")(a),
                10,
            ),
        ),
        ("nsys.sqlite", "cap"),
        needs=(NSYS,),
    ),
    Step(
        "ncu",
        60,
        ("{program}/count.py{capability}",),
        (
            at_least("counted kernels", fact("facts.json", "counted"), 3),
            near("FLOP of matrix products, 2 m k n", product_flop, fact("facts.json", "flop"), 5),
        ),
        ("counters.csv",),
        needs=(NCU,),
    ),
    Step(
        "ncu-layers",
        100,
        (
            "{tbd} collect llm --scale small --device {device} --profiler torch --force "
            "--no-throughput --warmup 3 --iterations 4 --batch-size 2 -o cap",
        ),
        (
            at_least(
                "kernels with a counted occupancy",
                total("occupancy", "counted_instances", "cap"),
                10,
            ),
            between(
                "achieved - estimated occupancy, largest, points", occupancy_difference, -100, 5
            ),
            at_least(
                "layers with an achieved occupancy",
                lambda a: sum(
                    row["achieved_pct"] is not None for row in query("layer_occupancy", "cap")(a)
                ),
                3,
            ),
        ),
        ("cap",),
        needs=(GPU, NCU),
    ),
    Step(
        "two-streams",
        30,
        ("{program}/streams.py",),
        (
            at_least("streams", streams, 2),
            near(
                "kernels, as launched",
                cell("trace_info", "kernels", STREAMS),
                fact("facts.json", "launches"),
                0,
            ),
            near(
                "time with a kernel, as by CUDA events, ms",
                busy_ms,
                fact("facts.json", "recorded_ms"),
                10,
            ),
            near(
                "overlap: sum of kernels / time with a kernel, as one stream / two streams",
                lambda a: kernels_of(STREAMS)(a) / 1e6 / busy_ms(a),
                lambda a: (
                    fact("facts.json", "one_stream_ms")(a) / fact("facts.json", "two_streams_ms")(a)
                ),
                10,
            ),
        ),
        (STREAMS,),
    ),
    pair("slow-loader", "input_pipeline", "input", "--loader-ms {loader_ms}"),
    pair(
        "pageable-copy",
        "copies",
        "pinned",
        "--input-mib {input_mib}",
        "--input-mib {input_mib} --pinned",
    ),
    pair("sync-in-loop", "synchronization", "no_sync", "--sync"),
    pair("unfused-optimizer", "gpu_optimizer", "fused_optimizer", "--adam loop"),
    Step(
        "memory-sweep",
        75,
        (f"{{program}}/sweep.py {_SWEPT_MODEL} --device {{device}} --scale {{scale}} {{sweep}}",),
        (
            equal(
                "the last batch size",
                fact("sweep.json", -1, "status"),
                "out_of_memory",
                needs_gpu=False,
            ),
        ),
        needs=(),
    ),
    Step(
        "memory-estimate",
        75,
        (
            f"{{tbd}} collect {_SWEPT_MODEL} --memory --estimate --device {{device}} --force "
            "--scale {scale} --batch-size {estimated} -o estimate",
        ),
        (
            *(
                near(
                    f"estimate of {words}, batch {size}",
                    estimated(column, size),
                    swept(key, size),
                    percent,
                )
                for size in (64, 128)
                for words, column, key, percent in (
                    ("live bytes", "peak_requested_bytes", "allocated", 5),
                    ("held bytes", "peak_reserved_bytes", "reserved", 10),
                )
            ),
        ),
        ("estimate/*",),
        needs=(),
    ),
)
