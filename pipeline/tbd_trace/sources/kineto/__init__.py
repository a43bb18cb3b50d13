"""Read traces of torch.profiler (Kineto); the tool is registered in ``torch_memory``."""
