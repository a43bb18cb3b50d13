-- Collectives: arguments of NCCL and RCCL kernels, record_param_comms, ranges of gloo, and ranges
-- of buckets of gradients.
SELECT
    event_id AS record_id,
    CASE WHEN bucket <> '' THEN 'bucket' WHEN kind = 'user' THEN 'gloo' ELSE kind END AS source,
    CASE WHEN bucket <> '' THEN regexp_extract(name, '^\w+')
         WHEN kind = 'user' THEN substr(name, 6) ELSE a."Collective name" END AS kind,
    start_ns,
    start_ns + duration_ns AS end_ns,
    CASE WHEN kind = 'kernel' THEN gpu_process(a.correlation, event_id) ELSE host_process(pid) END
        AS process_id,
    CASE WHEN kind <> 'kernel' THEN TRY_CAST(tid AS BIGINT) END AS thread_id,
    CASE WHEN kind = 'kernel' THEN event_id END AS kernel_id,
    nullif(a."Process Group Name", '') AS group_name,
    nullif(a."Process Group Ranks", '') AS group_ranks,
    nullif(a."Group size", 0) AS group_size,
    a.Seq AS sequence,
    -- gloo has no counts: the elements of all inputs, by their dimensions.
    CASE WHEN kind <> 'user' THEN a."In msg nelems"
         WHEN len(dims) > 0 THEN TRY_CAST(
             list_sum([CASE WHEN len(d) = 0 THEN 1 ELSE list_product(d) END FOR d IN dims])
             AS BIGINT)
    END AS input_elements,
    CASE WHEN kind <> 'user' THEN a."Out msg nelems" END AS output_elements,
    CASE WHEN kind <> 'user' THEN nullif(a.dtype, '')
         WHEN len(list_distinct(a."Input type")) = 1 THEN nullif(a."Input type"[1], '')
    END AS dtype,
    TRY_CAST(regexp_extract(name, ', bytes = (\d+), bucket = \d+$', 1) AS BIGINT) AS bytes,
    TRY_CAST(bucket AS BIGINT) AS bucket
FROM (
    SELECT *, regexp_extract(name, '^\w+, bytes = \d+, bucket = (\d+)$', 1) AS bucket,
        TRY_CAST(json_extract(args, '$."Input Dims"') AS BIGINT[][]) AS dims,
        json_transform(args, '{
            "Collective name": "VARCHAR", "Process Group Name": "VARCHAR",
            "Process Group Ranks": "VARCHAR", "Group size": "BIGINT", "Seq": "BIGINT",
            "In msg nelems": "BIGINT", "Out msg nelems": "BIGINT", "dtype": "VARCHAR",
            "Input type": ["VARCHAR"], "correlation": "BIGINT"}') AS a
    FROM event
    WHERE kind = 'operator' AND name = 'record_param_comms'
       OR kind = 'user'
       AND (starts_with(name, 'gloo:') OR name ~ '\w+, bytes = \d+, bucket = \d+')
       OR kind = 'kernel' AND args LIKE '%"Collective name"%'
)
