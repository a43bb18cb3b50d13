"""Break down GPU and idle time of a trace of torch.profiler with Holistic Trace Analysis."""

import sys

from hta.trace_analysis import TraceAnalysis

trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
print(trace.get_temporal_breakdown(visualize=False))
print(trace.get_comm_comp_overlap(visualize=False))
for table in trace.get_idle_time_breakdown(ranks=[0], visualize=False):
    print(table)
