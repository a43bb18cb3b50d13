"""Parts of `make_sample`: a synthetic network, its training, and the profilers' recordings."""
