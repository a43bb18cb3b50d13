/*
title    = "Work of ranks"
question = "Which kernels and copies, or operators on a CPU, does each rank run in the same steps?"
grain    = """item of work of a rank: kernels of one name, grid and block; copies of one size;
    without a GPU, operators of one name and one size of inputs"""
needs    = ["_rank_step"]
optional = ["window_op", "kernel", "kernel_class", "_host_operator"]
returns = ["job", "rank", "kind", "work", "size", "calls", "ns"]
[columns]
kind = "kernels, copies, graphs or operators"
work = "name of the kernel, copy or operator"
size = "grid and block, bytes, or dimensions of the inputs; NULL when unknown"
calls = "number in the compared steps"
ns = {unit = "ns", doc = "sum of durations; of operators, without the operators inside"}
*/
SELECT s.job, s.rank,
    CASE o.op_kind WHEN 'kernel' THEN 'kernels' WHEN 'graph' THEN 'graphs' ELSE 'copies' END
        AS kind,
    o.name AS work,
    CASE WHEN k.grid_x IS NULL THEN o.bytes::VARCHAR
         ELSE format('{}x{}x{}/{}x{}x{}', k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y,
            k.block_z) END AS size,
    count(*) AS calls, sum(o.duration_ns)::BIGINT AS ns
FROM _rank_step s
JOIN window_op o
    ON  o.trace_id = s.trace_id AND coalesce(o.process_id, -1) = s.process_id
    AND coalesce(o.device_id, -1) = s.device_id AND o.iteration = s.iteration
LEFT JOIN kernel k
    ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id AND o.op_kind = 'kernel'
LEFT JOIN kernel_class c
    ON c.trace_id = o.trace_id AND c.name = o.name AND o.op_kind = 'kernel'
WHERE c.class IS DISTINCT FROM 'communication'
GROUP BY ALL
UNION ALL
SELECT s.job, s.rank, 'operators', o.operator, o.sizes, count(*), sum(o.self_ns)::BIGINT
FROM _rank_step s
JOIN _host_operator o
    ON  o.trace_id = s.trace_id AND o.process_id = s.process_id AND o.iteration = s.iteration
WHERE s.device_id IS NULL AND starts_with(o.cause, 'cpu_')
GROUP BY ALL
