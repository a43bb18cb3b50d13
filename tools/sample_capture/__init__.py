"""The parts of `make_sample`: a made-up network, its training, and what profilers would record."""
