"""Read memory profiles of MXNet: the CSV of GPU allocations, and counters of its profiler."""
