/*
title    = "Kernels under communication"
question = "How long did each compute kernel run while the GPU also communicated?"
source   = """kernels of the same place in the step: the same stream, number in the step, name, grid
    and block. Of each stream, the steps with the most frequent sequence of kernels count, or with
    the earliest one of equally frequent ones"""
grain    = "compute kernel of a device that communicates, in the steps of the analysis window"
needs    = ["kernel", "gpu_op", "kernel_class"]
optional = ["window_op"]
returns = [
    "trace_id", "process_id", "device_id", "stream_id", "iteration", "place", "kernel_id", "name",
    "start_ns", "duration_ns", "under_ns",
]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
iteration = "iteration that launched it"
place = "number of the kernel among those of the stream in the iteration, from 1"
kernel_id = "the kernel"
name = "its name"
start_ns = "start"
duration_ns = "end - start"
under_ns = "part of it in which a communication kernel of the process runs on the device"
*/
WITH
communication AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id, o.start_ns, o.end_ns,
        max(o.end_ns) OVER (
            PARTITION BY o.trace_id, o.process_id, o.device_id ORDER BY o.start_ns, o.end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest_ns
    FROM gpu_op o
    JOIN kernel_class c
        ON  c.trace_id = o.trace_id AND c.name = o.name AND c.class = 'communication'
    WHERE o.op_kind = 'kernel'
),
-- Communication before a time is the sum before the last start up to it, and a part of that one.
running AS MATERIALIZED (
    SELECT trace_id, process_id, device_id, start_ns, end_ns,
        coalesce(sum(end_ns - start_ns) OVER (
            PARTITION BY trace_id, process_id, device_id ORDER BY start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS before_ns
    FROM (
        SELECT trace_id, process_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
        FROM (
            SELECT *, count(*) FILTER (latest_ns IS NULL OR start_ns > latest_ns) OVER (
                PARTITION BY trace_id, process_id, device_id ORDER BY start_ns, end_ns
                ROWS UNBOUNDED PRECEDING) AS island
            FROM communication
        )
        GROUP BY trace_id, process_id, device_id, island
    )
),
computing AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id, o.stream_id, o.iteration, o.op_id AS kernel_id,
        o.name, o.start_ns, o.end_ns,
        hash(o.name, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z) AS shape,
        row_number() OVER (
            PARTITION BY o.trace_id, o.process_id, o.device_id, o.stream_id, o.iteration
            ORDER BY o.start_ns, o.op_id) AS place
    FROM window_op o
    JOIN kernel k ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id
    JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    SEMI JOIN running r
        ON  r.trace_id = o.trace_id AND r.process_id = coalesce(o.process_id, -1)
        AND r.device_id = coalesce(o.device_id, -1)
    WHERE o.op_kind = 'kernel' AND o.iteration IS NOT NULL AND c.class <> 'communication'
),
sequence AS (
    SELECT trace_id, process_id, device_id, stream_id, iteration,
        hash(list(shape ORDER BY place)) AS shapes
    FROM computing GROUP BY ALL
),
usual AS (
    SELECT trace_id, process_id, device_id, stream_id,
        arg_max(shapes, {'steps': steps, 'earlier': -first_step}) AS shapes
    FROM (
        SELECT trace_id, process_id, device_id, stream_id, shapes, count(*) AS steps,
            min(iteration) AS first_step
        FROM sequence GROUP BY ALL
    )
    GROUP BY ALL
),
timed AS (
    SELECT c.*,
        coalesce(b.before_ns + least(c.start_ns, b.end_ns) - b.start_ns, 0) AS until_start_ns,
        coalesce(e.before_ns + least(c.end_ns, e.end_ns) - e.start_ns, 0) AS until_end_ns
    FROM computing c
    SEMI JOIN (SELECT * FROM sequence SEMI JOIN usual USING (
        trace_id, process_id, device_id, stream_id, shapes)) s
        ON  s.trace_id = c.trace_id AND s.process_id = c.process_id AND s.device_id = c.device_id
        AND s.stream_id IS NOT DISTINCT FROM c.stream_id AND s.iteration = c.iteration
    ASOF LEFT JOIN running b
        ON  b.trace_id = c.trace_id AND b.process_id = c.process_id AND b.device_id = c.device_id
        AND b.start_ns <= c.start_ns
    ASOF LEFT JOIN running e
        ON  e.trace_id = c.trace_id AND e.process_id = c.process_id AND e.device_id = c.device_id
        AND e.start_ns <= c.end_ns
)
SELECT trace_id, process_id, device_id, stream_id, iteration, place, kernel_id, name, start_ns,
    end_ns - start_ns AS duration_ns, until_end_ns - until_start_ns AS under_ns
FROM timed
