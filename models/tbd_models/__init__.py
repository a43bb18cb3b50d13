"""Workloads of the suite: training loops with NVTX ranges for iterations, phases and layers.

They run in an interpreter that has a framework, numpy and nvtx, without tbd-trace's dependencies:
``python -m tbd_models run resnet50 --framework pytorch``.
"""
