/*
title    = "Roles of NVTX texts"
question = "Which NVTX texts mark an iteration, a phase, a layer or a framework operator?"
source   = """convention of tbd-trace (docs/reference/capture_directory.md);
    torch.autograd.profiler.emit_nvtx; markers of PyProf and DLProf"""
grain    = "distinct NVTX domain and text of a trace"
optional = ["annotation", "_library_domain"]
returns = [
    "trace_id", "domain", "text", "first_range_id", "origin", "is_library", "is_iteration", "phase",
    "layer", "layer_kind", "layer_rank", "outermost", "seq", "is_backward",
]
[params.iteration_pattern]
doc = """regular expression (RE2) for ranges or marks of iterations; empty: the usual names
    (iteration 3, step 3, ProfilerStep#3, train_step, …)"""
default = ""
[params.layer_pattern]
doc = """regular expression (RE2) for ranges of layers; its first group, if any, is the layer name;
    empty: the conventions known to tbd-trace"""
default = ""
[columns]
domain = "NVTX domain; NULL for the default domain"
text = "NVTX text"
first_range_id = "first range with this text, which identifies the text; NULL if only marks have it"
origin = "nvtx, torch module, torch op, torch range (record_function)"
is_library = "true if the domain belongs to a library"
is_iteration = "true if the text marks an iteration"
phase = """data, forward, loss, backward, optimizer or communication; NULL if the text marks no
    phase; for a library, its purpose (DALI: data, NCCL: communication)"""
layer = "name of the layer marked by the text; NULL if it marks none"
layer_kind = """how the layer was recognized, best first: convention (range of tbd-trace; in a trace
    without such ranges, call of a PyTorch module), stack (DLProf call stack), plain (range of the
    user), module (PyProf call marker), operator (framework operator)"""
layer_rank = """rank of the layer; of several enclosing layers, the one with the largest rank owns a
    kernel"""
outermost = "true if the outermost layer of this rank owns a kernel, false if the innermost"
seq = "autograd sequence number of the operator; NULL without one"
is_backward = "true for a backward operator or the backward pass of a layer"
*/
WITH
distinct_text AS (
    SELECT trace_id, domain, text,
        min(annotation_id) FILTER (kind <> 'mark') AS first_range_id,
        min(source) AS source, min(source) = 'module' AS is_module
    FROM annotation
    -- Ranges of the profiler are no part of the program, and frames of Python own no GPU work.
    WHERE text IS NOT NULL AND source NOT IN ('profiler', 'frame')
    GROUP BY ALL
),
setting AS (
    SELECT
        coalesce(nullif(getvariable('iteration_pattern')::VARCHAR, ''),
            '(?i)^\s*(?:(?:train(?:ing)?|eval(?:uation)?|global|profiler|epoch[\s_:=#-]*\d+)'
            || '[\s_:,/.-]*)*'
            || '(?:iteration|iter|step|(?:mini|micro)[\s_-]?batch|batch)'
            || '(?:[\s_:=#()\[\]-]*\d+(?:\s*(?:/|to|of)\s*\d+)?\s*[)\]]?)?\s*$')
            AS iteration_pattern,
        nullif(getvariable('layer_pattern')::VARCHAR, '') AS layer_pattern
),
-- Where a program marks its layers, the modules and operators that torch.profiler records beside
-- them are no layers: outside of the marks, they hold the time of the marks.
marked AS MATERIALIZED (
    SELECT DISTINCT t.trace_id
    FROM distinct_text t CROSS JOIN setting s
    WHERE t.source = 'python' AND s.layer_pattern IS NULL AND starts_with(t.text, 'layer')
        AND regexp_matches(t.text, '^layer(?:_backward)?:.')
),
-- emit_nvtx prints "aten::conv2d, seq = 4, op_id = 9, sizes = …", and for record_function only
-- ", op_id = 9"; the name is the part before. A trace has millions of texts but few names.
named AS MATERIALIZED (
    SELECT *, name <> text AS is_numbered
    FROM (
        SELECT *,
            -- The name nearly always ends at the first comma, which takes a fifth of the time.
            CASE WHEN regexp_matches(text, '^[^,]*,\s*(?:seq|op_id|sizes|input_op_ids)\s*=')
                 THEN left(text, strpos(text, ',') - 1)
                 ELSE regexp_replace(text, '(?s),\s*(?:seq|op_id|sizes|input_op_ids)\s*=.*', '')
            END AS name,
            CASE WHEN contains(text, 'seq')
                 THEN try_cast(nullif(regexp_extract(text, ',\s*seq\s*=\s*(\d+)', 1), '') AS BIGINT)
            END AS seq
        FROM distinct_text
    )
),
distinct_name AS (
    SELECT DISTINCT domain, name, is_numbered, seq IS NOT NULL AS has_seq, is_module FROM named
),
-- Parts of the texts of tbd-trace's domain and of the markers of other tools.
parsed AS (
    SELECT
        t.*,
        y.domain IS NOT NULL AS is_library,
        regexp_matches(t.name, s.iteration_pattern) AS is_iteration,
        s.layer_pattern,
        if(
            t.is_module, t.name,
            nullif(regexp_extract(t.name, '^layer(?:_backward)?:(.+)$', 1), '')
        ) AS convention_layer,
        starts_with(t.name, 'layer_backward:') AS convention_backward,
        lower(regexp_replace(t.name, '^phase:', '')) AS phase_text,
        nullif(regexp_extract(t.name, '''funcStack'': ''([^'']*)''', 1), '') AS stack,
        nullif(regexp_extract(t.name, '^\{''mod'': ''([^'']*)''', 1), '') AS module,
        nullif(regexp_extract(t.name, '^\{''mod'': ''[^'']*'', ''op'': ''([^'']*)''', 1), '')
            AS module_op,
        starts_with(t.name, '{''traceMarker''') AS is_trace_marker,
        regexp_replace(t.name, '^autograd::engine::evaluate_function:\s*', '') AS operator,
        t.has_seq
            OR (t.is_numbered
                AND regexp_matches(t.name, '^\w+::|^(?:detach_?|record_param_comms)$'))
            OR regexp_matches(t.name, '^(?:aten|torch|autograd|c10d|prims|nccl|cudnn|quantized'
                || '|triton_|fsdp|TorchDynamo|## )[:\w]*::?')
            -- C++ functions of nvFuser
            OR regexp_matches(t.name, '^(?:nvFuser|GraphCache|Fusion\w*|ExecutorRunFusion'
                || '|KernelExecutor|fusion_executor|GpuLower)::')
            AS is_operator
    FROM distinct_name t
    CROSS JOIN setting s
    LEFT JOIN _library_domain y ON y.domain = t.domain
),
classified AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(phase_text,
                '^(forward|fwd|forward[ _-]?pass|forward_step|model forward)$') THEN 'forward'
            WHEN regexp_matches(phase_text,
                '^(backward|bwd|backward[ _-]?pass|backprop|backpropagation|loss\.backward'
                || '|backward_step)$') THEN 'backward'
            WHEN regexp_matches(phase_text,
                '^(optimizer|optim|opt|optimizer[ _.-]?step|optimizer\.step.*|opt[ _-]?step'
                || '|weight[ _-]?update|parameter[ _-]?update|zero[_ ]grad'
                || '|optimizer\.zero_grad.*)$') THEN 'optimizer'
            WHEN regexp_matches(phase_text,
                '^(loss|criterion|compute[ _]loss|loss[ _]?(fn|function))$') THEN 'loss'
            WHEN regexp_matches(phase_text,
                '^(data|input|h2d|data[ _-]?(load(ing|er)?|copy( in)?|transfer|fetch|wait)'
                || '|batch[ _]load(ing)?|load[ _](data|batch)|get[ _]batch'
                || '|copy[ _]to[ _](device|gpu)|enumerate\(dataloader\).*)([ _#:]*\d+)?$')
                THEN 'data'
            WHEN regexp_matches(phase_text,
                '^(all[ _-]?reduce|grad(ient)?[ _-]?(sync|all[ _-]?reduce)|communication|comm)$')
                THEN 'communication'
            WHEN regexp_matches(name, '^nccl(:|[A-Z]\w*$)') THEN 'communication'
            WHEN module IN ('Tensor', 'torch.Tensor', 'torch.autograd')
                AND module_op = 'backward' THEN 'backward'
            WHEN contains(lower(module), 'optim') AND module_op IN ('step', 'zero_grad')
                THEN 'optimizer'
            WHEN is_library AND regexp_matches(domain, '(?i)^dali') THEN 'data'
            WHEN is_library AND regexp_matches(domain, '(?i)^(nccl|nvshmem)') THEN 'communication'
        END AS phase
    FROM parsed
),
evaluated AS (
    SELECT
        domain, name, is_numbered, has_seq, is_module, is_library, is_iteration, phase,
        CASE
            WHEN is_library OR is_iteration THEN NULL
            WHEN layer_pattern IS NOT NULL THEN
                CASE WHEN regexp_matches(name, layer_pattern)
                     THEN coalesce(nullif(regexp_extract(name, layer_pattern, 1), ''), name) END
            WHEN convention_layer IS NOT NULL THEN convention_layer
            -- As printed by DLProf: "<module>" is "module", the second call "[2]".
            WHEN stack IS NOT NULL
                THEN regexp_replace(translate(stack, '<>', ''), '\((\d+)\)', '[\1]', 'g')
            WHEN is_trace_marker THEN NULL
            WHEN module_op IS NOT NULL THEN module || '.' || module_op
            WHEN phase IS NOT NULL THEN NULL
            WHEN is_operator THEN operator
            ELSE nullif(name, '')
        END AS layer,
        CASE
            WHEN layer IS NULL THEN NULL
            WHEN layer_pattern IS NOT NULL OR convention_layer IS NOT NULL THEN 'convention'
            WHEN stack IS NOT NULL THEN 'stack'
            WHEN module_op IS NOT NULL THEN 'module'
            WHEN is_operator THEN 'operator'
            ELSE 'plain'
        END AS layer_kind,
        -- A user's range is more specific than the call markers of a library inside it. Of nested
        -- calls, the outermost one was made by the code of the model.
        CASE layer_kind WHEN 'convention' THEN 5 WHEN 'stack' THEN 4 WHEN 'plain' THEN 3
            WHEN 'module' THEN 2 WHEN 'operator' THEN 1 END AS layer_rank,
        layer_kind IN ('stack', 'module', 'operator') AS outermost,
        -- AccumulateGrad nodes have no forward operator.
        NOT is_library AND NOT ends_with(operator, 'AccumulateGrad') AS has_node,
        convention_backward
            OR (is_operator AND regexp_matches(operator, '(?:Backward\d*|AccumulateGrad)$'))
            OR starts_with(name, 'autograd::engine::evaluate_function') AS is_backward
    FROM classified
)
SELECT
    t.trace_id, t.domain, t.text, t.first_range_id,
    CASE t.source WHEN 'module' THEN 'torch module' WHEN 'operator' THEN 'torch op'
        WHEN 'python' THEN 'torch range' ELSE t.source END AS origin,
    j.is_library, j.is_iteration, j.phase,
    if(is_beside, NULL, j.layer) AS layer, if(is_beside, NULL, j.layer_kind) AS layer_kind,
    if(is_beside, NULL, j.layer_rank) AS layer_rank, j.outermost,
    CASE WHEN j.has_node THEN t.seq END AS seq, j.is_backward
FROM (
    SELECT n.*, m.trace_id IS NOT NULL AND n.source IN ('module', 'operator') AS is_beside
    FROM named n LEFT JOIN marked m USING (trace_id)
) t
JOIN evaluated j
    ON  j.domain IS NOT DISTINCT FROM t.domain AND j.name = t.name
    AND j.is_numbered = t.is_numbered AND j.has_seq = (t.seq IS NOT NULL)
    AND j.is_module = t.is_module
