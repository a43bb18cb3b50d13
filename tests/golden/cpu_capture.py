"""The capture directory of the run of `cpu_trace`, as a profiler and a collector leave it."""

from __future__ import annotations

import json
from pathlib import Path

import cpu_trace
from nsys_schema import NVTX_DOMAIN, NVTX_PUSH_POP, Nvtx
from nsys_writer import NsysWriter

DOMAIN = "tbd_trace"


def write_capture(folder: Path) -> Path:
    """Write it into a new folder; return that."""
    folder.mkdir()
    content = {
        "format_version": 1,
        "capture_id": "cpu_only",
        "synthetic": True,
        "batch_size": cpu_trace.BATCH_SIZE,
        "iteration_window": {"first": 1, "last": len(cpu_trace.DELAYS_US) - 1},
        "files": [{"file": "timeline.sqlite", "role": "timeline", "tool": "nsys"}],
    }
    (folder / "capture.json").write_text(json.dumps(content), encoding="utf-8")
    layers = [{"name": name, "type": kind} for name, kind in cpu_trace.LAYERS.items()]
    (folder / "layers.json").write_text(
        json.dumps({"format_version": 1, "layers": layers}), encoding="utf-8"
    )
    with NsysWriter(folder / "timeline.sqlite", utc_start_ns=0) as writer:
        process = writer.process(cpu_trace.PID, "python")
        for tid, name in ((cpu_trace.PID, "python"), (cpu_trace.AUTOGRAD_TID, "pt_autograd_0")):
            writer.thread(process, tid, name)
        writer.add(
            Nvtx(0, None, NVTX_DOMAIN, text=DOMAIN, globalTid=process | cpu_trace.PID, domainId=1)
        )
        for made in sorted(
            [*cpu_trace.iterations(), *cpu_trace.ranges()], key=lambda r: (r.start, -r.end)
        ):
            writer.add(
                Nvtx(made.start, made.end, NVTX_PUSH_POP, textId=writer.string(made.text),
                     globalTid=process | made.tid, domainId=1)
            )  # fmt: skip
        writer.span(0, cpu_trace.iterations()[-1].end + 1000)  # else it counts as open
    return folder
