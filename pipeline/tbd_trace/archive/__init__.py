"""Trace archives: traces in a form that is shared, and read where there is no profiler."""
