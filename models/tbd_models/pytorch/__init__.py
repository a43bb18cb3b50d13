"""What the PyTorch workloads share."""
