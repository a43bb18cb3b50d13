"""Load the ranks of a job with Holistic Trace Analysis; print the seconds without its imports."""

import sys
import time

from hta.trace_analysis import TraceAnalysis

begin = time.perf_counter()
TraceAnalysis(trace_dir=sys.argv[1])
print(time.perf_counter() - begin, file=sys.stderr)
