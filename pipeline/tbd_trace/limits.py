"""Environment variables that limit what tbd-trace takes of the machine."""

THREADS = "TBD_TRACE_THREADS"
"""Threads to use, a number."""

MEMORY_LIMIT = "TBD_TRACE_MEMORY_LIMIT"
"""Memory to use before spilling to disk, with its unit, such as ``800MB``."""
