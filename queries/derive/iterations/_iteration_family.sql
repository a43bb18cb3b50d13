/*
title    = "Iterations from repeated NVTX ranges"
question = """Which ranges with equal names, or equal but for a number, are iterations, if no text
    marks them?"""
grain    = "iteration of a process"
needs    = ["_annotation_role", "op_launch", "gpu_op"]
optional = ["annotation_range", "annotation_semantics", "_iteration_mark", "_model_call"]
returns = [
    "trace_id", "process_id", "iteration", "label", "start_ns", "end_ns", "thread_id",
    "annotation_id", "family", "coverage", "confidence",
]
[columns]
process_id = "key of the process"
label = "text of the range; for phases of a training step, text of the first"
start_ns = "start on the host"
end_ns = "end on the host"
thread_id = "thread that marked the iteration"
annotation_id = "the range; NULL for phases of a training step"
family = """the text, with # for numbers; phases if iterations are the phases of the program from
    one optimizer step to the next"""
coverage = "share of the GPU time of the process launched during these ranges"
confidence = "the coverage, at most 0.99; × 0.9 if the texts do not number the ranges"
*/
-- A family is at least three ranges of one thread with texts that are equal but for numbers (Coarse
-- Level 0, Coarse Level 1, …), or equal (Forward), without ranges nested in others of the family;
-- or the phases of a program up to an optimizer step. At least 80 % of its ranges must contain GPU
-- work, and all together half of the GPU time of the process, launched by any thread during them.
-- Of families that cover at least 0.9 times as much as the best, the one with the fewest ranges
-- wins, because layers and kernels repeat inside steps. Ranges of libraries, operators, parts of a
-- model and epochs do not form families, nor do ranges of which half or more lie with the next one
-- in a single call of a module, an operator or a phase. The thread must launch at least a quarter
-- as often as the busiest one.
WITH
role AS (
    SELECT trace_id, domain, text, regexp_replace(text, '\d+', '#', 'g') AS family
    FROM _annotation_role
    WHERE (layer_kind = 'plain' OR phase = 'forward')
      AND NOT (is_library OR is_iteration OR is_backward) AND seq IS NULL
      AND NOT regexp_matches(text, '(?i)layer|block|module|attention|attn|\bhead|softmax|matmul'
          || '|gemm|conv|norm|linear|embed|mlp|ffn|encoder|decoder|backbone|expert|stage')
      AND NOT regexp_matches(text, '^(?:cub|thrust|nccl|cudnn|cublas|at|c10|torch|aten)::')
      AND NOT regexp_matches(text, '(?i)^\W*(?:train(?:ing)?\W+)?(?:epoch|loop)[\W\d_]*$')
),
unmarked AS (
    SELECT r.trace_id, r.process_id, r.domain_id, r.kind, r.thread_id, r.annotation_id, r.text,
        r.start_ns,
        r.end_ns, m.family,
        -- start/end ranges of one program may start on any thread.
        CASE WHEN r.kind = 'push_pop' THEN r.thread_id END AS stack_thread
    FROM annotation_range r
    JOIN role m
        ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
    WHERE NOT r.is_open
),
phase_range AS (
    SELECT m.*, r.text, m.phase = 'optimizer' AS is_optimizer,
        lag(is_optimizer, 1, true) OVER in_order AND NOT is_optimizer AS begins
    FROM annotation_semantics m JOIN annotation_range r USING (trace_id, annotation_id)
    WHERE m.kind = 'push_pop' AND NOT r.is_open AND NOT regexp_matches(r.text, '(?i)zero')
      AND m.phase IN ('data', 'forward', 'loss', 'backward', 'optimizer')
    WINDOW in_order AS (
        PARTITION BY m.trace_id, m.process_id, m.thread_id, m.domain_id ORDER BY m.position)
),
phases AS (
    SELECT trace_id, process_id, domain_id, thread_id, arg_min(text, position) AS text,
        min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT *, count(*) FILTER (begins) OVER (
            PARTITION BY trace_id, process_id, thread_id, domain_id ORDER BY position) AS step
        FROM phase_range
    )
    WHERE step > 0
    GROUP BY trace_id, process_id, domain_id, thread_id, step
    HAVING bool_or(is_optimizer)
),
member AS (
    SELECT f.* EXCLUDE (trace_id, process_id), f.trace_id, f.process_id
    FROM (
        SELECT trace_id, process_id, domain_id, kind, stack_thread, family, thread_id,
            annotation_id, text,
            start_ns, end_ns
        FROM unmarked
        UNION ALL
        SELECT trace_id, process_id, domain_id, 'phases', thread_id, 'phases', thread_id, NULL,
            text, start_ns, end_ns
        FROM phases
    ) f
    WHERE NOT EXISTS (
        SELECT 1 FROM _iteration_mark m
        WHERE m.trace_id = f.trace_id AND m.process_id IS NOT DISTINCT FROM f.process_id)
),
outermost AS (
    SELECT *, hash(trace_id, process_id, domain_id, kind, stack_thread, family) AS family_id
    FROM member
    QUALIFY count(*) OVER (
            PARTITION BY trace_id, process_id, domain_id, kind, stack_thread, family) >= 3
        AND (end_ns <= max(end_ns) OVER (
            PARTITION BY trace_id, process_id, domain_id, kind, stack_thread, family
            ORDER BY start_ns, end_ns DESC, annotation_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) IS NOT TRUE
),
inside_call AS (
    SELECT o.family_id
    FROM (
        SELECT *, count(*) OVER (PARTITION BY family_id) AS members,
            lead(start_ns) OVER (
                PARTITION BY family_id ORDER BY start_ns, end_ns, annotation_id) AS next_ns
        FROM outermost
    ) o
    ASOF JOIN _model_call c
        ON  c.trace_id = o.trace_id AND c.process_id IS NOT DISTINCT FROM o.process_id
        AND c.thread_id IS NOT DISTINCT FROM o.thread_id AND o.start_ns > c.start_ns
    GROUP BY o.family_id
    HAVING count(*) FILTER (o.next_ns < c.end_ns) >= 0.5 * (any_value(o.members) - 1)
),
-- GPU time by time of launch.
work AS (
    SELECT l.trace_id, l.process_id, l.thread_id, l.launch_start_ns AS start_ns,
        sum(o.duration_ns) AS gpu_ns
    FROM op_launch l
    JOIN gpu_op o USING (trace_id, op_kind, op_id)
    GROUP BY ALL
),
so_far AS (
    SELECT trace_id, process_id, start_ns,
        sum(sum(gpu_ns)) OVER (PARTITION BY trace_id, process_id ORDER BY start_ns) AS gpu_ns
    FROM work GROUP BY trace_id, process_id, start_ns
),
total AS (SELECT trace_id, process_id, max(gpu_ns) AS gpu_ns FROM so_far GROUP BY ALL),
launching AS (
    SELECT trace_id, process_id, thread_id
    FROM work
    GROUP BY trace_id, process_id, thread_id
    QUALIFY count(*) >= 0.25 * max(count(*)) OVER (PARTITION BY trace_id, process_id)
),
-- If ranges overlap, launches belong to the one that started last.
measured AS (
    SELECT o.*, coalesce(e.gpu_ns, 0) - coalesce(b.gpu_ns, 0) AS gpu_ns
    FROM (
        SELECT *, least(end_ns, coalesce(lead(start_ns) OVER (
            PARTITION BY family_id ORDER BY start_ns, end_ns, annotation_id), end_ns)) AS until_ns
        FROM outermost
    ) o
    ASOF LEFT JOIN so_far b
        ON  b.trace_id = o.trace_id AND b.process_id IS NOT DISTINCT FROM o.process_id
        AND o.start_ns > b.start_ns
    ASOF LEFT JOIN so_far e
        ON  e.trace_id = o.trace_id AND e.process_id IS NOT DISTINCT FROM o.process_id
        AND o.until_ns > e.start_ns
),
covering AS (
    SELECT h.family_id, any_value(h.trace_id) AS trace_id, any_value(h.process_id) AS process_id,
        any_value(h.family) AS family, count(*) AS ranges,
        sum(h.gpu_ns) / any_value(t.gpu_ns) AS coverage,
        count(DISTINCT h.text) = count(*) OR any_value(h.kind) = 'phases' AS is_counted
    FROM measured h
    ANTI JOIN inside_call i USING (family_id)
    JOIN total t ON t.trace_id = h.trace_id AND t.process_id IS NOT DISTINCT FROM h.process_id
    WHERE h.kind = 'start_end' OR EXISTS (
        SELECT 1 FROM launching l
        WHERE l.trace_id = h.trace_id AND l.process_id IS NOT DISTINCT FROM h.process_id
          AND l.thread_id IS NOT DISTINCT FROM h.thread_id)
    GROUP BY h.family_id
    HAVING count(*) >= 3 AND coverage >= 0.5 AND count(*) FILTER (h.gpu_ns > 0) >= 0.8 * count(*)
),
best AS (
    SELECT * FROM (
        SELECT *, max(coverage) OVER (PARTITION BY trace_id, process_id) AS most FROM covering
    )
    WHERE coverage >= 0.9 * most
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id ORDER BY ranges, coverage DESC, family, family_id) = 1
)
SELECT h.trace_id, h.process_id,
    row_number() OVER (
        PARTITION BY h.trace_id, h.process_id
        ORDER BY h.start_ns, h.end_ns, h.annotation_id) - 1 AS iteration,
    h.text AS label, h.start_ns, h.end_ns, h.thread_id, h.annotation_id, b.family,
    round(least(b.coverage, 1), 4) AS coverage,
    round(least(b.coverage * CASE WHEN b.is_counted THEN 1 ELSE 0.9 END, 0.99), 4) AS confidence
FROM measured h JOIN best b USING (family_id)
