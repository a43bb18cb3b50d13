"""Benchmarks; run them from the root of the repository, as ``python -m benchmarks.bench``."""

import sys
from pathlib import Path

# The generator builds on the writer of Nsight Systems exports that the sample is made with.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
