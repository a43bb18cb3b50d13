"""Emit NVTX ranges of the domain ``tbd_trace`` and measure the layers of models."""
