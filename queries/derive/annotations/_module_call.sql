/*
title    = "Calls of modules"
question = "How often and for how long was each module of a PyTorch model called?"
grain    = "module by its path in the model"
optional = ["annotation"]
returns = ["trace_id", "module", "calls", "host_ns"]
[columns]
module = "path of the module"
calls = "number of calls"
host_ns = "host time of the calls"
[advice]
missing = """
needs calls of modules; record them with torch.profiler and `with_stack=True`"""
*/
SELECT trace_id, text AS module, count(*) AS calls, sum(end_ns - start_ns)::BIGINT AS host_ns
FROM annotation WHERE source = 'module' AND text IS NOT NULL
GROUP BY ALL
