/*
title    = "GPU operations in order of dependence"
question = "What did each GPU operation wait for?"
source   = """an operation starts after the previous one of its stream, after its launch, and after
    the operations of other streams that it waits for"""
grain    = "GPU operation"
needs    = ["gpu_op"]
optional = ["op_launch", "_event_wait_op"]
returns = [
    "trace_id", "process_id", "device_id", "stream_id", "position", "op_kind", "op_id", "name",
    "bytes", "start_ns", "end_ns", "previous_position", "api_call_id", "launch_start_ns",
    "stream_gap_ns", "launch_lag_ns", "awaited_position", "lag_ns",
]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
position = "order of the operation in its process, by start, from 1"
op_kind = "kernel, memcpy, memset or graph"
op_id = "the operation"
name = "kernel name, or kind of operation"
bytes = {unit = "byte", doc = "bytes copied or filled"}
start_ns = "start"
end_ns = "end"
previous_position = "position of the previous operation of the stream"
api_call_id = "launching call; NULL if the trace does not contain it"
launch_start_ns = "start of the launching call"
stream_gap_ns = "usual time between operations of a stream that wait for each other"
launch_lag_ns = """usual time from the start of a launch to the start of its operation on an idle
    stream"""
awaited_position = """position of the operation of another stream that it waited for: by a recorded
    wait for an event, if this explains the start to 8 µs; else one that ended at most 20 µs
    earlier, where previous operation and launch explain less than start - 8 µs"""
lag_ns = """start - end of the awaited operation; without one, time that stays unexplained if it is
    above 8 µs, else 0"""
*/
WITH
launched AS MATERIALIZED (
    SELECT *,
        row_number() OVER (
            PARTITION BY trace_id, process_id ORDER BY start_ns, op_kind, op_id) AS position
    FROM (
        SELECT o.* REPLACE (
            coalesce(o.process_id, -1) AS process_id, coalesce(o.device_id, -1) AS device_id),
            l.api_call_id, l.launch_start_ns
        FROM gpu_op o
        LEFT JOIN op_launch l USING (trace_id, op_kind, op_id)
    )
),
streamed AS MATERIALIZED (
    SELECT *,
        lag(position) OVER stream AS previous_position, lag(end_ns) OVER stream AS previous_end_ns
    FROM launched
    WINDOW stream AS (PARTITION BY trace_id, process_id, device_id, stream_id ORDER BY position)
),
ended AS MATERIALIZED (
    SELECT trace_id, process_id, device_id, end_ns, max(position) AS position
    FROM launched GROUP BY ALL
),
-- With the operation of the device that ended last before.
preceded AS MATERIALIZED (
    SELECT s.*, e.position AS last_position, e.end_ns AS last_end_ns
    FROM streamed s
    ASOF LEFT JOIN ended e
        ON  e.trace_id = s.trace_id AND e.process_id = s.process_id AND e.device_id = s.device_id
        AND s.start_ns >= e.end_ns
),
usual AS (
    SELECT trace_id, process_id,
        -- Operations that were launched long before the previous one ended waited for that one,
        -- unless one of another stream ended later.
        median(greatest(start_ns - previous_end_ns, 0))
            FILTER (is_kernel AND launch_start_ns < previous_end_ns - 20000
                AND last_end_ns <= previous_end_ns) AS stream_gap_ns,
        -- Copies often wait for events of other streams, so they count without kernels only. No GPU
        -- needs over 0.1 ms to start an operation.
        least(coalesce(
            median(start_ns - launch_start_ns) FILTER (is_kernel AND is_idle),
            median(start_ns - launch_start_ns) FILTER (is_idle)), 100000) AS launch_lag_ns
    FROM (
        SELECT *, op_kind NOT IN ('memcpy', 'memset') AS is_kernel,
            -- One that ended between launch and start may be of a stream that it waited for.
            start_ns >= launch_start_ns
                AND coalesce(greatest(previous_end_ns, last_end_ns) < launch_start_ns, true)
                AS is_idle
        FROM preceded
    )
    GROUP BY ALL
),
-- The wait for an event is in force from the first operation that is launched after it.
awaiting AS (
    SELECT o.trace_id, o.process_id, o.op_kind, o.op_id,
        arg_max(a.position, (a.end_ns, a.position)) AS position, max(a.end_ns) AS end_ns
    FROM (FROM _event_wait_op WHERE stream_id IS NOT NULL) w
    ASOF JOIN (FROM launched WHERE launch_start_ns IS NOT NULL) o
        ON  o.trace_id = w.trace_id AND o.process_id = w.process_id AND o.device_id = w.device_id
        AND o.stream_id = w.stream_id AND w.wait_ns <= o.launch_start_ns
    JOIN launched a
        ON a.trace_id = w.trace_id AND a.op_kind = w.op_kind AND a.op_id = w.op_id
    WHERE a.end_ns <= o.start_ns AND a.position < o.position
    GROUP BY ALL
),
explained AS (
    SELECT s.*, w.position AS event_position, w.end_ns AS event_end_ns,
        coalesce(u.stream_gap_ns, 1000)::BIGINT AS stream_gap_ns,
        coalesce(u.launch_lag_ns, 5000)::BIGINT AS launch_lag_ns,
        greatest(
            s.previous_end_ns + coalesce(u.stream_gap_ns, 1000)::BIGINT,
            s.launch_start_ns + coalesce(u.launch_lag_ns, 5000)::BIGINT) AS ready_ns
    FROM preceded s
    LEFT JOIN usual u USING (trace_id, process_id)
    LEFT JOIN awaiting w USING (trace_id, process_id, op_kind, op_id)
)
SELECT x.trace_id, x.process_id, x.device_id, x.stream_id, x.position, x.op_kind, x.op_id, x.name,
    x.bytes, x.start_ns, x.end_ns, x.previous_position, x.api_call_id, x.launch_start_ns,
    x.stream_gap_ns, x.launch_lag_ns,
    CASE WHEN is_event THEN x.event_position
         WHEN x.start_ns - x.ready_ns > 8000 AND x.last_end_ns > x.ready_ns
              AND x.start_ns - x.last_end_ns <= 20000 AND x.last_position < x.position
         THEN x.last_position END AS awaited_position,
    CASE WHEN is_event AND x.event_end_ns > x.ready_ns THEN x.start_ns - x.event_end_ns
         -- It could have started earlier, so that its lag is not known.
         WHEN is_event THEN least(x.stream_gap_ns, x.start_ns - x.event_end_ns)
         WHEN awaited_position IS NOT NULL THEN x.start_ns - x.last_end_ns
         WHEN x.start_ns - x.ready_ns > 8000 THEN x.start_ns - x.ready_ns
         ELSE 0 END AS lag_ns
FROM (
    SELECT *, event_position IS NOT NULL
        AND start_ns - greatest(ready_ns, event_end_ns + stream_gap_ns) <= 8000 AS is_event
    FROM explained
) x
