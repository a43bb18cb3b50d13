/*
title    = "Memory grows from iteration to iteration"
question = "Do the live bytes after each iteration grow steadily, and which code makes them grow?"
source   = """live bytes after the last event of each iteration but the first; slope by Theil and
    Sen, and share of the pairs of iterations that rise (Mann and Kendall)"""
grain    = "trace: the memory space that grows most"
needs    = ["memory_event", "memory_iteration"]
optional = ["_relevant_memory", "_iteration_live", "_stack_code"]
reduce   = "concat"
[check]
rule = "MEM02"
scope = "trace"
thresholds = "proposed"
advice = """look for tensors kept across iterations: sum losses with loss.item(), detach what you
    store, clear lists and caches; tbd-trace query memory_leak shows the code"""
collect = "a memory profile of at least five iterations, with the optimizer step"
[params.max_growth_bytes]
doc = """maximum growth of the live bytes per iteration; 4096 bytes are 3.8 GiB in a million
    iterations"""
default = 4096
[params.min_rising_pct]
doc = """share of the pairs of iterations of which the later one has more live bytes, in percent,
    from which growth is steady"""
default = 80.0
[params.leak_iterations]
doc = "minimum number of iterations after the first"
default = 3
[params.doubling_iterations]
doc = "iterations in which a leak doubles the memory to be a warning instead of a note"
default = 10000
*/
WITH
setting AS (
    SELECT getvariable('max_growth_bytes')::DOUBLE AS max_growth_bytes,
        getvariable('min_rising_pct')::DOUBLE AS min_rising_pct,
        getvariable('leak_iterations')::BIGINT AS leak_iterations,
        getvariable('doubling_iterations')::DOUBLE AS doubling_iterations
),
total AS (
    SELECT space, iteration, sum(bytes)::BIGINT AS bytes FROM _iteration_live
    GROUP BY space, iteration
),
-- Thousands of iterations have millions of pairs: 1000 iterations at equal distances are enough.
thinned AS (
    FROM total
    WINDOW in_order AS (PARTITION BY space ORDER BY iteration DESC)
    QUALIFY (row_number() OVER in_order - 1)
        % (1 + count(*) OVER (PARTITION BY space) // 1000) = 0
),
sloped AS (
    SELECT a.space, median((b.bytes - a.bytes) / (b.iteration - a.iteration)) AS growth_bytes,
        100.0 * count(*) FILTER (b.bytes > a.bytes) / count(*) AS rising_pct
    FROM thinned AS a
    JOIN thinned AS b ON b.space = a.space AND b.iteration > a.iteration
    GROUP BY a.space
),
ended AS (
    SELECT space, count(*) AS iterations, min(iteration) AS first_iteration,
        max(iteration) AS last_iteration,
        arg_min(bytes, iteration) AS first_bytes, arg_max(bytes, iteration) AS last_bytes,
        -- A warm-up has an end: a leak makes the last iteration the highest.
        max_by(iteration, bytes) = max(iteration)
        AND count(*) FILTER (bytes = highest) = 1 AS is_highest_at_end
    FROM (SELECT *, max(bytes) OVER (PARTITION BY space) AS highest FROM total)
    GROUP BY space
),
part AS (
    SELECT l.space, l.class, l.layer, l.operator, l.stack_id,
        coalesce(sum(l.bytes) FILTER (l.iteration = e.last_iteration), 0)
        - coalesce(sum(l.bytes) FILTER (l.iteration = e.first_iteration), 0) AS grown_bytes
    FROM _iteration_live AS l
    JOIN ended AS e USING (space)
    WHERE l.iteration IN (e.first_iteration, e.last_iteration)
    GROUP BY ALL
),
most AS (
    SELECT *, 100.0 * grown_bytes / sum(grown_bytes) OVER (PARTITION BY space) AS grown_pct
    FROM part WHERE grown_bytes > 0
    QUALIFY row_number() OVER (
        PARTITION BY space ORDER BY grown_bytes DESC, class, layer, operator, stack_id) = 1
),
evaluated AS (
    SELECT j.trace_id, j.label, j.peak_bytes, e.*, t.*, s.growth_bytes, s.rising_pct,
        m.grown_pct,
        m.class || coalesce(' of ' || m.operator, '') || coalesce(' in ' || m.layer, '')
            || coalesce(', from ' || c.code, '') AS maker,
        CASE
            WHEN e.iterations IS NULL THEN 'iterations are unknown'
            WHEN e.iterations < t.leak_iterations THEN format(
                'fewer than {} iterations after the first have a known end', t.leak_iterations)
        END AS why_not,
        s.growth_bytes > t.max_growth_bytes AND s.rising_pct >= t.min_rising_pct
        AND e.is_highest_at_end AS is_growing
    FROM _relevant_memory AS j
    CROSS JOIN setting AS t
    LEFT JOIN ended AS e USING (space)
    LEFT JOIN sloped AS s USING (space)
    LEFT JOIN most AS m USING (space)
    LEFT JOIN _stack_code AS c ON c.trace_id = j.trace_id AND c.stack_id = m.stack_id
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN is_growing THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict <> 'finding' THEN NULL
         WHEN growth_bytes * doubling_iterations >= peak_bytes THEN 'warning'
         ELSE 'note' END AS severity,
    CASE WHEN why_not IS NULL THEN growth_bytes END AS value,
    max_growth_bytes AS threshold, 'bytes per iteration' AS unit,
    CASE WHEN why_not IS NULL THEN 'allocator' END AS evidence,
    label || CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN verdict = 'finding' THEN format(
                'the bytes live after an iteration grow by {} per iteration, {} over {} iterations '
                    || 'after the first',
                format_bytes(growth_bytes::BIGINT), format_bytes(last_bytes - first_bytes),
                iterations)
            || coalesce(format('; {:.0f} % of the growth is {}', least(grown_pct, 100), maker), '')
        WHEN growth_bytes > max_growth_bytes THEN format(
            'the bytes live after an iteration change between {} iterations after the first, but '
                || 'not steadily: {:.0f} % of the pairs rise{}',
            iterations, rising_pct,
            if(is_highest_at_end, '', ', and the last iteration is not the highest'))
        ELSE format('the bytes live after an iteration do not grow over {} iterations after the '
                || 'first (from {} to {})',
            iterations, format_bytes(first_bytes), format_bytes(last_bytes))
    END AS reason,
    NULL::VARCHAR AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        growth_bytes DESC NULLS LAST, label) = 1
ORDER BY trace_id
