"""Find the rank that hangs a distributed job, from dumps of PyTorch's Flight Recorder."""
