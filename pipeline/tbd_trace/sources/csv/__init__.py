"""Parsing shared by the readers of printed profiler output."""
