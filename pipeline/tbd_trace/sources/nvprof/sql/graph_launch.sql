-- CUDA graphs traced as a whole (from version 17). CUPTI gives only the number of the graph, not of
-- its instance.
SELECT
    row_number() OVER (ORDER BY g._id_) AS graph_launch_id,
    g.start AS start_ns,
    g."end" AS end_ns,
    g."end" - g.start AS duration_ns,
    r.process_id,
    g.deviceId AS device_id,
    g.contextId AS context_id,
    g.streamId AS stream_id,
    nullif(g.correlationId, 0) AS correlation_id,
    nullif(g.graphId, 0) AS graph_id
FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE AS g
CROSS JOIN recording AS r
WHERE g.start > 0 AND g."end" > 0
