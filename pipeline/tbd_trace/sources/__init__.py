"""Readers of profiler files: one package per tool."""
