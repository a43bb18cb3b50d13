"""Marks on the timeline (NVTX ranges of domain ``tbd_trace``) and the sizes of layers."""
