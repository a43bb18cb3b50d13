/*
title    = "Iteration boundaries from a periodic kernel"
question = "Where does each iteration start if the program marks none?"
source   = """a training loop repeats the same work: a kernel that runs once per iteration (its
    anchor) cuts the sequence of kernels into periods with equal counts of each kernel"""
grain    = "iteration of a process"
needs    = ["gpu_op"]
optional = ["kernel", "op_launch", "_iteration_mark", "_model_call", "_model_part",
    "annotation_semantics", "annotation_range"]
returns = [
    "trace_id", "process_id", "iteration", "label", "start_ns", "end_ns", "thread_id", "confidence",
    "coverage", "next_gpu_ns", "is_gpu_time",
]
[params.min_confidence]
doc = "minimum score of an anchor"
default = 0.8
[columns]
process_id = "key of the process"
label = "short name of the anchor kernel, the first kernel of each iteration"
start_ns = "launch of the anchor kernel; if launches are unknown, its start"
end_ns = "start of the next iteration; for the last, launch of its last kernel + 1"
thread_id = "thread that launched the anchor kernel; NULL if launches are unknown"
confidence = """the score: share of the work in iterations that repeats from one to the next ×
    (share of the process's work in iterations)^¼; 1 is perfect"""
coverage = "share of the kernels or of the kernel time in iterations, whichever is smaller"
next_gpu_ns = """start on the GPU of the anchor kernel that follows the last iteration and begins
    one that was not fully recorded; NULL for other iterations and without one"""
is_gpu_time = """true if start and end are GPU times, because the launches of many kernels are
    unknown"""
*/
-- An anchor is a kernel name, a name with grid and block, or a name with the previous name on its
-- stream. Candidates cut the kernel sequence of the busiest device. Counts are compared instead of
-- sequences, because grids may change between steps and streams may overtake each other.
--
-- Score: every name, and every pair of successive names on a stream, has a weight, the mean of its
-- shares of kernel time and launches. It counts by the share of periods that contain as many of it
-- as the median period (within 2 %); with a median of 0 it does not count. Pairs are included
-- because counts alone repeat by chance: in kernels in random order, and in the layers of one pass
-- through a network.
--
-- Contradiction: layers repeat, too. An anchor is none if half of its periods or more lie with the
-- next one in a single call of a module, an operator or a phase (_model_call), or if the numbered
-- parts of the model (_model_part) that run in its periods are mostly others in each: a step runs
-- the same parts as the step before, a layer does not.
--
-- Choice: of the accepted anchors, those with the most periods (the finest cut); among cuts of
-- similar count, the largest score × cover. A coarser cut (at most 0.55 times as many periods)
-- replaces it if it is regular and at least 1.5 % more of the time or of the launches repeats in
-- it: work done once per step (embedding, loss, optimizer) is in no layer. Updates of the weights
-- overrule that: periods with an update each are steps already, even if other work repeats every
-- n-th step; and if at most every second period has one, the periods are parts of a step
-- (micro-batches), however small the update is.
--
-- Start: of the signatures that occur as often as the chosen one, the one after the longest median
-- wait of the GPU, during which the host loads data, copies it or logs. If the GPU never waits, the
-- one after the longest wait of the host between launches, else the first.
WITH
-- Names are numbered, because DuckDB hashes collide for some names that differ only in numbers.
kernel_name AS (
    SELECT o.name, k.short_name, row_number() OVER (ORDER BY o.name) AS number
    FROM (SELECT DISTINCT name FROM gpu_op) o
    LEFT JOIN (SELECT name, min(short_name) AS short_name FROM kernel GROUP BY ALL) k USING (name)
),
-- A CUDA graph traced as a whole counts as one kernel. process_id and device_id -1 mean unknown.
ordered AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id,
        o.stream_id, o.op_kind, o.op_id, o.start_ns, o.end_ns, n.number AS name, l.thread_id,
        l.launch_start_ns AS launch_ns, l.launch_end_ns AS launched_ns,
        hash(n.number, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z)
            AS configuration
    -- Filtered before the joins, which are otherwise computed for rows that are dropped.
    FROM (
        SELECT o.* FROM gpu_op o
        WHERE o.op_kind IN ('kernel', 'graph')
          AND NOT EXISTS (
              SELECT 1 FROM _iteration_mark m
              WHERE m.trace_id = o.trace_id AND m.process_id IS NOT DISTINCT FROM o.process_id)
    ) o
    LEFT JOIN kernel_name n ON n.name = o.name
    LEFT JOIN kernel k
        ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id AND o.op_kind = 'kernel'
    LEFT JOIN op_launch l
        ON l.trace_id = o.trace_id AND l.op_kind = o.op_kind AND l.op_id = o.op_id
),
busiest AS (
    SELECT *, row_number() OVER (ORDER BY trace_id, process_id) AS sequence
    FROM (
        SELECT trace_id, process_id, device_id
        FROM ordered
        GROUP BY trace_id, process_id, device_id
        QUALIFY row_number() OVER (
            PARTITION BY trace_id, process_id ORDER BY sum(end_ns - start_ns) DESC, device_id) = 1
    )
),
walk AS MATERIALIZED (
    SELECT *, hash(name, lag(name) OVER stream) AS pair, lag(position) OVER stream AS previous,
        row_number() OVER (PARTITION BY sequence, stream_id ORDER BY position DESC)
            AS left_on_stream,
        start_ns - max(end_ns) OVER (
            PARTITION BY sequence ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap_ns,
        launch_ns - lag(launched_ns) OVER (
            PARTITION BY sequence, thread_id ORDER BY launch_ns, position) AS host_gap_ns
    FROM (
        SELECT b.sequence, o.stream_id, o.name, o.configuration, o.thread_id, o.launch_ns,
            o.launched_ns, o.start_ns, o.end_ns, o.end_ns - o.start_ns AS duration_ns,
            -- Positions continue across processes, so one join key is enough.
            row_number() OVER (ORDER BY b.sequence, o.start_ns, o.op_kind, o.op_id) AS position
        FROM ordered o JOIN busiest b USING (trace_id, process_id, device_id)
    )
    WINDOW stream AS (PARTITION BY sequence, stream_id ORDER BY position)
),
extent AS (
    SELECT sequence, min(position) AS first_position, max(position) AS last_position,
        count(*) AS kernels, sum(duration_ns) AS kernel_ns,
        median(gap_ns) AS usual_gap_ns, median(host_gap_ns) AS usual_host_gap_ns,
        count(launch_ns) >= 0.8 * count(*) AS by_launch
    FROM walk GROUP BY ALL
),
signed AS (
    SELECT sequence, position, gap_ns, host_gap_ns,
        unnest([1, 2, 3]) AS level, unnest([name::UBIGINT, configuration, pair]) AS signature
    FROM walk
),
-- Possible anchors: at least three occurrences, on average two kernels apart, over at least half of
-- the sequence.
recurring AS (
    SELECT s.sequence, s.level, s.signature, count(*) AS occurrences,
        min(position) AS first_position, max(position) AS last_position,
        median(gap_ns) AS gap_ns, median(host_gap_ns) AS host_gap_ns,
        least(1, (max(position) - min(position)) * count(*) / (count(*) - 1) / any_value(e.kernels))
            AS cover
    FROM signed s JOIN extent e USING (sequence)
    GROUP BY s.sequence, s.level, s.signature
    HAVING count(*) >= 3 AND max(position) - min(position) >= 2 * (count(*) - 1) AND cover >= 0.5
),
occurrence AS MATERIALIZED (
    SELECT s.sequence, s.level, s.signature, s.position,
        lead(s.position) OVER (
            PARTITION BY s.sequence, s.level, s.signature ORDER BY s.position) AS next_position
    FROM signed s SEMI JOIN recurring r USING (sequence, level, signature)
),
distance AS (
    SELECT sequence, level, signature, median(next_position - position) AS distance
    FROM occurrence GROUP BY ALL
),
regular AS MATERIALIZED (
    SELECT r.*, d.distance, g.alike / (r.occurrences - 1) AS regularity
    FROM recurring r
    JOIN distance d USING (sequence, level, signature)
    JOIN (
        SELECT o.sequence, o.level, o.signature,
            count(*) FILTER (
                abs(o.next_position - o.position - d.distance) <= greatest(1, 0.1 * d.distance))
                AS alike
        FROM occurrence o JOIN distance d USING (sequence, level, signature)
        GROUP BY ALL
    ) g USING (sequence, level, signature)
    WHERE regularity >= 0.5
),
-- At most one signature per count and 40 counts. Above 50, counts within 2 % are one class.
candidate AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY sequence, occurrences, level, signature) AS candidate
    FROM (
        SELECT *,
            CASE WHEN occurrences < 50 THEN occurrences
                 ELSE 50 + floor(50 * ln(occurrences / 50)) END
            AS count_class
        FROM regular
        QUALIFY row_number() OVER (
            PARTITION BY sequence, count_class
            ORDER BY regularity DESC, cover DESC, gap_ns DESC, level, signature) = 1
    )
    QUALIFY row_number() OVER (
        PARTITION BY sequence ORDER BY regularity DESC, cover DESC, occurrences) <= 40
),
-- For long sequences, a sample of periods is compared: about 100,000 kernels per candidate, at
-- least 20 periods. It is drawn by a hash, because taking every n-th period could hide a rhythm.
period AS (
    SELECT *, count(*) OVER (PARTITION BY candidate) AS periods
    FROM (
        SELECT c.sequence, c.candidate, o.position, o.next_position
        FROM candidate c JOIN occurrence o USING (sequence, level, signature)
        WHERE o.next_position IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY c.candidate ORDER BY hash(o.position), o.position)
            <= greatest(20, 100_000 // c.distance)
    )
),
content AS (
    SELECT candidate, periods, position, feature, kind, count(*) AS kernels,
        sum(duration_ns) AS kernel_ns
    FROM (
        SELECT p.candidate, p.periods, p.position, w.duration_ns, w.previous,
            unnest([w.name::UBIGINT, w.pair]) AS feature, unnest([1, 2]) AS kind
        FROM (SELECT candidate, periods, position, unnest(range(position, next_position)) AS inside
              FROM period) p
        JOIN walk w ON w.position = p.inside
    )
    WHERE kind = 1 OR previous >= position  -- both kernels of a pair are in the period
    GROUP BY ALL
),
-- Periods without a feature have no row; they count as leading zeros.
counted AS (
    SELECT candidate, kind, feature, periods, list_sort(list(kernels)) AS counts,
        sum(kernels) AS kernels, sum(kernel_ns) AS kernel_ns
    FROM content GROUP BY ALL
),
repeated AS (
    SELECT candidate, kind, kernels, kernel_ns,
        coalesce(counts[nullif(greatest(len(counts) - periods // 2, 0), 0)], 0) AS usual,
        CASE WHEN usual = 0 THEN 0
             ELSE len(list_filter(counts, lambda n: abs(n - usual) <= 0.02 * usual)) / periods
        END AS share
    FROM counted
),
explained AS (
    SELECT candidate,
        sum(share * kernels) FILTER (kind = 1) / sum(kernels) FILTER (kind = 1) AS launches,
        sum(share * kernel_ns) FILTER (kind = 1)
            / nullif(sum(kernel_ns) FILTER (kind = 1), 0) AS busy,
        (sum(share * kernels) / sum(kernels)
            + coalesce(sum(share * kernel_ns) / nullif(sum(kernel_ns), 0),
                sum(share * kernels) / sum(kernels))
        ) / 2 AS repeats
    FROM repeated GROUP BY candidate
),
time_cover AS (
    SELECT c.candidate, least(1, sum(w.duration_ns) / nullif(any_value(e.kernel_ns), 0)
            * any_value(c.occurrences) / (any_value(c.occurrences) - 1)) AS time_cover
    FROM candidate c
    JOIN walk w
        ON  w.sequence = c.sequence AND w.position >= c.first_position
        AND w.position < c.last_position
    JOIN extent e ON e.sequence = c.sequence
    GROUP BY c.candidate
),
scored AS (
    SELECT c.sequence, c.candidate, c.occurrences, c.regularity, c.distance, c.first_position,
        c.last_position,
        least(c.cover, coalesce(t.time_cover, c.cover)) AS covered,
        x.repeats * covered ** 0.25 AS score, x.launches, coalesce(x.busy, x.launches) AS busy
    FROM candidate c JOIN explained x USING (candidate) JOIN time_cover t USING (candidate)
),
-- Fewer than five occurrences repeat by chance more often, so they need a score of 0.9.
sufficient AS MATERIALIZED (
    FROM scored
    WHERE covered >= 0.5
      AND score >= greatest(
          getvariable('min_confidence'),
          CASE WHEN occurrences < 5 THEN 0.9 ELSE 0 END)
),
-- Periods on the host, if one thread launched both ends.
span AS MATERIALIZED (
    SELECT p.candidate, b.trace_id, b.process_id, a.thread_id, a.launch_ns AS start_ns,
        n.launch_ns AS end_ns
    FROM period p
    SEMI JOIN sufficient USING (candidate)
    JOIN walk a ON a.position = p.position
    JOIN walk n ON n.position = p.next_position
    JOIN busiest b ON b.sequence = p.sequence
    WHERE n.thread_id = a.thread_id AND n.launch_ns > a.launch_ns
),
inside_call AS (
    SELECT s.candidate
    FROM span s
    ASOF LEFT JOIN (
        SELECT trace_id, coalesce(process_id, -1) AS process_id, thread_id, start_ns, end_ns
        FROM _model_call) c
        ON  c.trace_id = s.trace_id AND c.process_id = s.process_id
        AND c.thread_id = s.thread_id AND s.start_ns >= c.start_ns
    GROUP BY s.candidate
    HAVING count(*) FILTER (s.end_ns < c.end_ns) >= 0.5 * count(*)
),
-- How many periods run a part, and a part of its family.
part AS (
    SELECT s.candidate, m.part, m.family, s.start_ns
    FROM (
        SELECT c.candidate, m.*
        FROM (SELECT DISTINCT candidate, trace_id, process_id, thread_id FROM span) c
        JOIN (SELECT * REPLACE (coalesce(process_id, -1) AS process_id) FROM _model_part) m
            USING (trace_id, process_id, thread_id)
    ) m
    ASOF JOIN span s
        ON  s.candidate = m.candidate AND s.thread_id = m.thread_id
        AND m.start_ns >= s.start_ns
    WHERE m.start_ns < s.end_ns
    GROUP BY ALL
),
other_parts AS (
    SELECT p.candidate
    FROM (SELECT candidate, family, part, count(*) AS periods FROM part GROUP BY ALL) p
    JOIN (SELECT candidate, family, count(DISTINCT start_ns) AS periods FROM part GROUP BY ALL) f
        USING (candidate, family)
    JOIN (SELECT candidate, count(*) AS periods FROM span GROUP BY ALL) a USING (candidate)
    WHERE f.periods >= 0.8 * a.periods
    GROUP BY p.candidate
    HAVING sum(p.periods) FILTER (p.periods <= 0.5 * a.periods) >= 0.5 * sum(p.periods)
),
-- Kernels that update the weights: by their names, or launched during a step of the optimizer.
-- multi_tensor_apply runs the other parts of optimizers, but copies for FSDP, too.
updating AS (
    SELECT w.position
    FROM walk w JOIN kernel_name n ON n.number = w.name
    WHERE regexp_matches(n.name, '(?i)adam|sgd|lamb(?:_|stage|\b)|optimizer|adagrad|adadelta'
            || '|rmsprop|gradientdescent|applymomentum')
       OR (contains(n.name, 'multi_tensor_apply') AND NOT regexp_matches(n.name, '(?i)copy'))
    UNION
    SELECT w.position
    FROM (SELECT w.*, b.trace_id, b.process_id FROM walk w JOIN busiest b USING (sequence)) w
    ASOF JOIN (
        SELECT m.trace_id, coalesce(m.process_id, -1) AS process_id, m.thread_id, m.start_ns,
            m.end_ns
        FROM annotation_semantics m JOIN annotation_range r USING (trace_id, annotation_id)
        WHERE m.phase = 'optimizer' AND NOT regexp_matches(r.text, '(?i)zero')
    ) o
        ON  o.trace_id = w.trace_id AND o.process_id = w.process_id AND o.thread_id = w.thread_id
        AND w.launch_ns >= o.start_ns
    WHERE w.launch_ns < o.end_ns
),
updated AS (
    SELECT p.candidate, count(*) FILTER (u.position < p.next_position) / count(*) AS updated
    FROM period p
    SEMI JOIN sufficient USING (candidate)
    ASOF LEFT JOIN (
        SELECT position FROM updating WHERE position - 1 NOT IN (FROM updating)
    ) u ON p.position <= u.position
    GROUP BY p.candidate
),
accepted AS (
    SELECT *, max(occurrences) OVER (PARTITION BY sequence) AS finest
    FROM sufficient JOIN updated USING (candidate)
    WHERE candidate NOT IN (FROM inside_call) AND candidate NOT IN (FROM other_parts)
),
fine AS (
    SELECT * FROM accepted
    WHERE occurrences > 0.55 * finest
    QUALIFY row_number() OVER (
        PARTITION BY sequence ORDER BY score * covered DESC, occurrences DESC, candidate) = 1
),
-- If optimizers update each layer during the backward pass, every layer has an update, but the
-- forward pass, a quarter of the work or more, repeats in none.
coarser AS (
    SELECT a.*,
        a.updated >= 0.9 AND f.updated <= 0.55 AS completes,
        if(completes, 1, greatest(a.launches - f.launches, a.busy - f.busy)) AS gain
    FROM accepted a JOIN fine f USING (sequence)
    WHERE a.occurrences <= 0.55 * f.occurrences AND a.regularity >= 0.9 AND gain >= 0.015
      AND NOT (f.updated >= 0.9 AND least(f.launches, f.busy) >= 0.75)
),
-- The finest cut with nearly the largest gain. If every tenth step logs, ten steps repeat as
-- well as one, but the step is the iteration.
coarse AS (
    SELECT c.*
    FROM coarser c
    JOIN (
        SELECT sequence, max(occurrences) AS finest
        FROM (SELECT *, max(gain) OVER (PARTITION BY sequence) AS most FROM coarser)
        WHERE gain > most - 0.015
        GROUP BY sequence
    ) b ON b.sequence = c.sequence AND c.occurrences BETWEEN 0.55 * b.finest AND b.finest / 0.55
    QUALIFY row_number() OVER (
        PARTITION BY c.sequence
        ORDER BY c.score * c.covered DESC, c.occurrences DESC, c.candidate) = 1
),
chosen AS (
    SELECT coalesce(c.sequence, f.sequence) AS sequence,
        coalesce(c.occurrences, f.occurrences) AS occurrences,
        coalesce(c.distance, f.distance) AS distance, coalesce(c.score, f.score) AS score,
        coalesce(c.covered, f.covered) AS covered
    FROM fine f LEFT JOIN coarse c USING (sequence)
),
-- Data loaders and communication use separate streams; iterations start on the stream with the most
-- kernels.
fullest AS (
    SELECT sequence, stream_id FROM walk
    GROUP BY sequence, stream_id
    QUALIFY row_number() OVER (PARTITION BY sequence ORDER BY count(*) DESC, stream_id) = 1
),
-- Signatures that cut the same periods: as frequent, at the same distance. A pair may lack its
-- first occurrence, because no kernel precedes the first iteration.
divided AS (
    SELECT r.sequence, r.level, r.signature, r.occurrences, r.distance, r.first_position,
        c.occurrences AS wanted,
        -- A wait is significant if it is ten times as long as the usual one between kernels or
        -- launches, and longer than a mere wait for the next launch.
        CASE WHEN r.gap_ns > greatest(
                 10 * greatest(e.usual_gap_ns, 0), 2 * coalesce(e.usual_host_gap_ns, 0))
             THEN r.gap_ns END AS gap_ns,
        CASE WHEN r.host_gap_ns > 10 * greatest(e.usual_host_gap_ns, 0)
             THEN r.host_gap_ns END AS host_gap_ns
    FROM chosen c
    JOIN extent e USING (sequence)
    JOIN regular r
        ON r.sequence = c.sequence AND r.occurrences BETWEEN c.occurrences - 1 AND c.occurrences + 1
    JOIN walk w ON w.position = r.first_position
    JOIN fullest f ON f.sequence = c.sequence AND f.stream_id IS NOT DISTINCT FROM w.stream_id
    WHERE abs(r.distance - c.distance) <= greatest(1, 0.1 * c.distance)
),
boundary AS (
    FROM divided
    QUALIFY row_number() OVER (
        PARTITION BY sequence
        ORDER BY gap_ns DESC NULLS LAST, host_gap_ns DESC NULLS LAST, first_position,
            occurrences DESC, level, signature) = 1
),
boundary_position AS (
    SELECT b.*, o.position
    FROM boundary b JOIN occurrence o USING (sequence, level, signature)
),
-- First iteration of a pair that lacks its first occurrence: the same kernel about one iteration
-- before the second; of several, the one after the longest wait.
missed AS (
    SELECT b.* EXCLUDE (first_position), w.position
    FROM boundary b
    JOIN walk anchor ON anchor.position = b.first_position
    JOIN walk w
        ON  w.sequence = b.sequence AND w.configuration = anchor.configuration
        AND w.position BETWEEN b.first_position - 1.3 * b.distance
            AND b.first_position - 0.7 * b.distance
    WHERE b.occurrences < b.wanted
    QUALIFY row_number() OVER (
        PARTITION BY b.sequence ORDER BY w.gap_ns DESC NULLS FIRST, w.position) = 1
),
-- If more than 20 % of the launches are unknown, iterations are in GPU time; if fewer, an iteration
-- starts with its first known launch. Kernels of one call (a CUDA graph) are not divided.
begun AS (
    SELECT p.sequence, p.position, p.distance, p.next_position, a.name, e.by_launch,
        e.last_position,
        CASE WHEN e.by_launch THEN a.first_launch_ns ELSE a.start_ns END AS at_ns,
        CASE WHEN e.by_launch THEN a.first_thread_id END AS thread_id,
        a.start_ns AS gpu_at_ns,
        a.left_on_stream,
        -- Kernels of its stream until the next iteration.
        a.left_on_stream
            - lead(a.left_on_stream) OVER (PARTITION BY p.sequence ORDER BY p.position) AS own
    FROM (
        SELECT sequence, distance, position,
            lead(position) OVER (PARTITION BY sequence ORDER BY position) AS next_position
        FROM (FROM boundary_position SELECT sequence, distance, position
              UNION ALL FROM missed SELECT sequence, distance, position)
    ) p
    JOIN (
        SELECT position, name, start_ns, left_on_stream,
            first_value(launch_ns IGNORE NULLS) OVER from_here AS first_launch_ns,
            first_value(thread_id IGNORE NULLS) OVER from_here AS first_thread_id
        FROM walk
        WINDOW from_here AS (
            PARTITION BY sequence ORDER BY position
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
    ) a USING (position)
    JOIN extent e USING (sequence)
    QUALIFY row_number() OVER (PARTITION BY p.sequence, at_ns ORDER BY p.position) = 1
),
-- The last iteration counts if its stream has at least 0.9 times the kernels of the shortest
-- iteration.
-- It then ends after the usual number of kernels.
whole AS (
    SELECT *, count(*) OVER (PARTITION BY sequence) AS iterations
    FROM (
        SELECT *, lead(at_ns) OVER later AS next_ns,
            lead(gpu_at_ns) OVER later AS next_gpu_at_ns,
            min(own) FILTER (own > 0) OVER (PARTITION BY sequence) AS shortest
        FROM begun WHERE at_ns IS NOT NULL
        WINDOW later AS (PARTITION BY sequence ORDER BY at_ns)
    )
    WHERE next_position IS NOT NULL OR left_on_stream >= 0.9 * coalesce(shortest, 0)
),
ending AS (
    SELECT i.sequence,
        max(CASE WHEN i.by_launch THEN w.launch_ns ELSE w.start_ns END) + 1 AS end_ns
    FROM whole i
    JOIN walk w
        ON w.position BETWEEN i.position AND least(i.last_position, i.position + i.distance - 1)
    WHERE i.next_position IS NULL
    GROUP BY i.sequence
)
SELECT b.trace_id, nullif(b.process_id, -1) AS process_id,
    row_number() OVER (PARTITION BY i.sequence ORDER BY i.at_ns) - 1 AS iteration,
    coalesce(n.short_name, n.name) AS label, i.at_ns AS start_ns,
    coalesce(i.next_ns, e.end_ns) AS end_ns, i.thread_id,
    round(least(c.score, 1), 4) AS confidence, round(c.covered, 4) AS coverage,
    CASE WHEN lead(i.at_ns) OVER (PARTITION BY i.sequence ORDER BY i.at_ns) IS NULL
         THEN i.next_gpu_at_ns END AS next_gpu_ns,
    NOT i.by_launch AS is_gpu_time
FROM whole i
JOIN busiest b USING (sequence)
JOIN chosen c USING (sequence)
JOIN kernel_name n ON n.number = i.name
LEFT JOIN ending e ON e.sequence = i.sequence
WHERE i.iterations >= 3
