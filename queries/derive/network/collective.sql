/*
title    = "Collectives"
question = "Which collective operations ran, when, and how many bytes did they move?"
source   = """communication kernels by name, with what PyTorch records about them; ranges of gloo;
    NVTX ranges `all_reduce, bytes = N`"""
grain    = "collective operation of a rank"
needs    = ["trace", "collectives", "element_types"]
optional = ["gpu_op", "kernel_class", "op_launch", "collective_record", "annotation"]
returns = [
    "trace_id", "collective_id", "kind", "is_synchronizing", "start_ns", "end_ns", "issue_ns",
    "process_id", "thread_id", "device_id", "stream_id", "communicator", "group_size", "sequence",
    "bytes", "dtype", "name", "source", "bytes_evidence",
]
[columns]
trace_id = "the trace"
collective_id = "number, unique in the trace, in order of time"
kind = "all_reduce, all_gather, reduce_scatter, broadcast, …; NULL when unknown"
is_synchronizing = "true if no rank can end before all have begun; NULL when unknown"
start_ns = "start on the GPU, or of the range on the host"
end_ns = "end"
issue_ns = "start of the launching call; NULL when unknown"
thread_id = "thread of a range; NULL for kernels"
device_id = "device; NULL for ranges of the host"
stream_id = "CUDA stream; NULL for ranges of the host"
communicator = "process group and its ranks, or the stream by order of first use"
group_size = "ranks in the group; NULL when unknown"
sequence = "number in the process group as recorded; NULL when unknown"
bytes = {unit = "byte", doc = "larger one of input and output; NULL when unknown"}
dtype = "type of the elements; NULL when unknown"
name = "kernel name, or text of the range"
source = "kernel, gloo or nvtx"
bytes_evidence = """kernel arguments, record_param_comms, input dimensions or range text; NULL
    without bytes"""
[advice]
missing = "needs collectives; {collectives}"
*/
WITH
communication AS (
    SELECT o.* FROM gpu_op o
    JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    WHERE o.op_kind = 'kernel' AND c.class = 'communication'
),
issued AS (
    SELECT o.trace_id, o.op_id, o.process_id, o.device_id, o.stream_id, o.start_ns, o.end_ns,
        o.name, l.process_id AS host_process_id, l.thread_id AS host_thread_id,
        l.launch_start_ns AS issue_ns
    FROM communication o
    LEFT JOIN op_launch l USING (trace_id, op_kind, op_id)
),
-- Ranges around the launch name the collective of a kernel that does not say it.
labelled AS (
    SELECT i.*, CASE WHEN a.end_ns >= i.issue_ns
        THEN regexp_extract(a.text, '^nccl:([A-Za-z_]+)', 1) END AS label
    FROM issued i
    ASOF LEFT JOIN (
        SELECT * FROM annotation WHERE starts_with(text, 'nccl:') AND kind <> 'mark'
    ) a
        ON  a.trace_id = i.trace_id AND a.process_id = i.host_process_id
        AND a.thread_id = i.host_thread_id AND i.issue_ns >= a.start_ns
),
described AS (
    SELECT l.*, CASE WHEN r.end_ns >= l.issue_ns THEN r.record_id END AS operator_id
    FROM labelled l
    ASOF LEFT JOIN (SELECT * FROM collective_record WHERE source = 'operator') r
        ON  r.trace_id = l.trace_id AND r.process_id = l.host_process_id
        AND r.thread_id = l.host_thread_id AND l.issue_ns >= r.start_ns
),
-- The range of a shard around a collective of gloo has the bytes of all ranks, and says where gloo
-- performs a reduce-scatter as an all-reduce. Ranges of all-reduces overlap, so they are not used.
gloo AS (
    SELECT g.*, CASE WHEN b.end_ns >= g.end_ns THEN b.kind END AS shard_kind,
        CASE WHEN b.end_ns >= g.end_ns THEN b.bytes END AS shard_bytes
    FROM (SELECT * FROM collective_record WHERE source = 'gloo') g
    ASOF LEFT JOIN (
        SELECT * FROM collective_record
        WHERE source = 'bucket' AND kind IN ('all_gather', 'reduce_scatter')
    ) b ON b.trace_id = g.trace_id AND b.process_id = g.process_id AND g.start_ns >= b.start_ns
),
recorded AS (
    SELECT d.trace_id, d.start_ns, d.end_ns, d.issue_ns, d.process_id,
        NULL::BIGINT AS thread_id, d.device_id, d.stream_id, d.name, 'kernel' AS source,
        [r.kind, o.kind, d.label, d.name] AS texts,
        coalesce(r.group_name, o.group_name) AS group_name,
        coalesce(r.group_ranks, o.group_ranks) AS group_ranks,
        coalesce(r.group_size, o.group_size) AS group_size,
        coalesce(r.sequence, o.sequence) AS sequence,
        coalesce(r.input_elements, o.input_elements) AS input_elements,
        coalesce(r.output_elements, o.output_elements) AS output_elements,
        coalesce(r.dtype, o.dtype) AS dtype, NULL::BIGINT AS text_bytes,
        CASE WHEN r.input_elements IS NOT NULL THEN 'kernel arguments'
             ELSE 'record_param_comms' END AS bytes_evidence
    FROM described d
    LEFT JOIN collective_record r
        ON r.trace_id = d.trace_id AND r.kernel_id = d.op_id AND r.source = 'kernel'
    LEFT JOIN collective_record o
        ON o.trace_id = d.trace_id AND o.record_id = d.operator_id AND o.source = 'operator'
    UNION ALL
    SELECT trace_id, start_ns, end_ns, NULL, process_id, thread_id, NULL, NULL, 'gloo:' || kind,
        'gloo', [shard_kind, kind], group_name, group_ranks, group_size, sequence, input_elements,
        output_elements, dtype, shard_bytes,
        CASE WHEN shard_bytes IS NULL THEN 'input dimensions' ELSE 'range text' END
    FROM gloo
    UNION ALL
    SELECT trace_id, start_ns, end_ns, NULL, process_id, thread_id, NULL, NULL, text,
        'nvtx', [text], NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        TRY_CAST(regexp_extract(text, ', bytes = (\d+)', 1) AS BIGINT), 'range text'
    FROM annotation
    WHERE source = 'nvtx' AND kind <> 'mark' AND NOT is_open
      AND regexp_matches(text, '^(\w+:)?(all_|reduce|broadcast|barrier|gather|scatter)\w*, bytes =')
),
-- The first text that names a kind, by the pattern of highest priority.
text_kind AS (
    SELECT t.word, max_by(c.kind, c.priority) AS kind
    FROM (SELECT DISTINCT unnest(texts) AS word FROM recorded) t
    JOIN collectives c ON regexp_matches(t.word, c.pattern)
    GROUP BY t.word
),
kind_of AS (
    SELECT r.*, coalesce(k1.kind, k2.kind, k3.kind, k4.kind) AS kind
    FROM recorded r
    LEFT JOIN text_kind k1 ON k1.word = r.texts[1]
    LEFT JOIN text_kind k2 ON k2.word = r.texts[2]
    LEFT JOIN text_kind k3 ON k3.word = r.texts[3]
    LEFT JOIN text_kind k4 ON k4.word = r.texts[4]
),
-- Without a process group, streams in the order in which each device first uses them.
stream AS (
    SELECT trace_id, process_id, device_id, stream_id,
        row_number() OVER (
            PARTITION BY trace_id, process_id, device_id ORDER BY min(start_ns), stream_id)
            AS number
    FROM recorded WHERE source = 'kernel' GROUP BY trace_id, process_id, device_id, stream_id
)
SELECT k.trace_id,
    row_number() OVER (PARTITION BY k.trace_id ORDER BY k.start_ns, k.end_ns, k.process_id,
        k.device_id, k.stream_id, k.thread_id, k.name) AS collective_id,
    k.kind, c.synchronizing AS is_synchronizing, k.start_ns, k.end_ns, k.issue_ns, k.process_id,
    k.thread_id, k.device_id, k.stream_id,
    CASE WHEN k.group_name IS NOT NULL THEN 'group ' || k.group_name
             || coalesce(' ' || k.group_ranks, '')
         WHEN k.source = 'kernel' THEN 'stream ' || s.number
         ELSE k.source END AS communicator,
    k.group_size, k.sequence,
    coalesce(k.text_bytes, greatest(k.input_elements, k.output_elements) * t.bytes)::BIGINT
        AS bytes,
    k.dtype, k.name, k.source,
    CASE WHEN coalesce(k.text_bytes, greatest(k.input_elements, k.output_elements) * t.bytes)
        IS NOT NULL THEN k.bytes_evidence END AS bytes_evidence
FROM kind_of k
LEFT JOIN (SELECT DISTINCT kind, synchronizing FROM collectives) c ON c.kind = k.kind
LEFT JOIN element_types t ON t.dtype = k.dtype
LEFT JOIN stream s
    ON  s.trace_id = k.trace_id AND s.process_id IS NOT DISTINCT FROM k.process_id
    AND s.device_id IS NOT DISTINCT FROM k.device_id
    AND s.stream_id IS NOT DISTINCT FROM k.stream_id AND k.source = 'kernel'
