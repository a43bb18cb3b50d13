"""Checks, comparisons and reports built on queries."""
