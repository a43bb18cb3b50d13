/*
title    = "Calls of modules"
question = "How often and for how long was each module of a PyTorch model called?"
grain    = "module by its path in the model"
optional = ["annotation"]
[columns.trace_id]
doc = "the trace"
[columns.module]
doc = "path of the module"
[columns.calls]
doc = "number of calls"
[columns.host_ns]
unit = "ns"
doc = "host time of the calls"
[advice]
missing = """
needs calls of modules; record them with torch.profiler and `with_stack=True`"""
*/
SELECT trace_id, text AS module, count(*) AS calls, sum(end_ns - start_ns)::BIGINT AS host_ns
FROM annotation WHERE source = 'module' AND text IS NOT NULL
GROUP BY ALL
