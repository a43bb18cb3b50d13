"""Parts of the synthetic memory sample (``tools/make_memory_sample.py``)."""
