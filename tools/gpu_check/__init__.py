"""Check tbd-trace on a machine with a GPU, without a network, within minutes."""
