"""The workloads of the suite: training loops that mark iterations, phases and layers.

Runs in an interpreter that holds a framework, numpy and nvtx, nothing else of tbd-trace:
``python -m tbd_models run resnet50 --framework pytorch``.
"""
