"""Nsight Compute: CSV."""
