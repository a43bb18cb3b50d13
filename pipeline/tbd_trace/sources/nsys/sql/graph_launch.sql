-- CUDA graphs traced as a whole (--cuda-graph-trace=graph). CUPTI writes 0 for a missing id.
SELECT
    g.row AS graph_launch_id,
    g.start AS start_ns,
    g."end" AS end_ns,
    span_ns(g.start, g."end") AS duration_ns,
    process_key(g.globalPid) AS process_id,
    TRY_CAST(g.deviceId AS INTEGER) AS device_id,
    g.contextId AS context_id,
    g.streamId AS stream_id,
    nullif(g.correlationId, 0) AS correlation_id,
    nullif(g.graphId, 0) AS graph_id,
    nullif(g.graphExecId, 0) AS graph_exec_id
FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE AS g
WHERE g.start IS NOT NULL AND g."end" IS NOT NULL
