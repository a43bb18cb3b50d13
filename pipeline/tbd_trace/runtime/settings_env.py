"""Environment variables that limit threads and memory."""

THREADS = "TBD_TRACE_THREADS"
"""Threads to use, a number."""

MEMORY_LIMIT = "TBD_TRACE_MEMORY_LIMIT"
"""Memory to use before spilling to disk, with its unit, such as ``800MB``."""

WITHOUT_BLAS_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""Keeps NumPy from starting threads for linear algebra, one per core, that spin in vain."""
