"""Checks, comparisons, reports and the answers of ``why``, built on queries."""
