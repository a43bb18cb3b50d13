"""Run a script and print the most bytes that PyTorch's CPU allocator held: ``FILE ARGUMENT…``.

The numbers are those of torch.profiler, which sees each allocation and free in C++.
"""

from __future__ import annotations

import json
import runpy
import sys
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile


def main() -> None:
    torch.backends.mkldnn.enabled = False  # its scratch memory is not modelled
    sys.argv = sys.argv[1:]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        runpy.run_path(sys.argv[0], run_name="__main__")
    events = [
        (event.start_ns(), event.nbytes())
        for event in profiler.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    changes = [size for _, size in sorted(events, key=lambda event: event[0])]
    print(json.dumps({"peak_bytes": max(accumulate(changes))}))


if __name__ == "__main__":
    main()
