"""Connections, worker processes, limits, signals and atomic writes."""
