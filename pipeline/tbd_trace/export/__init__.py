"""Traces for other tools: the timeline for Perfetto, and any table as a file."""
