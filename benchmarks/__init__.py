"""Benchmarks; run them from the root of the repository, as ``python -m benchmarks.bench``."""

import sys
from pathlib import Path

# generate.py uses the Nsight Systems export writer in tools.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
