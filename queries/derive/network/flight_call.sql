/*
title    = "Collectives called by ranks"
question = "Which collective has each rank called, and has it ended?"
source   = "rules of torch.distributed on equal arguments; root and reduction are not recorded"
grain    = "collective of a process group on a rank, or a send or receive"
needs    = ["flight_rank", "flight_record"]
returns = [
    "job", "rank", "group_name", "group_description", "sequence", "position", "backend",
    "operation", "is_point_to_point", "peer", "p2p_sequence", "shapes", "dtypes", "signature",
    "is_retired", "created_ns", "function", "file", "line",
]
[columns]
job = "the job"
rank = "the rank"
position = "place among the operations of the dump, from 0"
operation = "the operation; those of a coalesced collective are joined by +"
shapes = "shapes of the inputs, else of the outputs, as JSON"
dtypes = "types of their elements, as JSON"
signature = """what all ranks of the group must pass alike: operation, shapes and types; shapes of
    all-to-all can differ, those of gather and scatter at the root"""
*/
WITH
record AS (
    SELECT k.job, k.rank, r.*,
        coalesce(nullif(r.input_shapes, '[]'), r.output_shapes) AS shapes,
        coalesce(nullif(r.input_dtypes, '[]'), r.output_dtypes) AS dtypes,
        r.operation LIKE '%gather%' AS is_gather,
        r.operation LIKE '%scatter%' AS is_scatter,
        len(list_distinct(from_json(r.output_shapes, '["JSON"]'))) > 1 AS is_uneven_output,
        len(list_distinct(from_json(r.input_shapes, '["JSON"]'))) > 1 AS is_uneven_input
    FROM flight_record r JOIN flight_rank k ON k.trace_id = r.trace_id
),
compared AS (
    SELECT *,
        CASE WHEN operation = 'scatter' OR operation LIKE '%all_to_all%' THEN NULL
            WHEN is_gather AND is_uneven_output THEN NULL
            ELSE input_shapes END AS equal_inputs,
        CASE WHEN operation = 'gather' OR operation LIKE '%all_to_all%' THEN NULL
            WHEN is_scatter AND is_uneven_input THEN NULL
            ELSE output_shapes END AS equal_outputs,
        CASE WHEN operation = 'scatter' THEN output_dtypes
            WHEN operation = 'gather' THEN input_dtypes
            ELSE dtypes END AS equal_dtypes
    FROM record
),
described AS (
    SELECT *,
        concat_ws(' ', operation, equal_inputs, equal_outputs, equal_dtypes) AS described,
        -- Coalesced operations have the number of one collective.
        CASE WHEN is_point_to_point THEN record_id ELSE -1 END AS single
    FROM compared
)
SELECT job, rank, group_name, any_value(group_description) AS group_description, sequence,
    min(record_id) AS position, any_value(backend) AS backend,
    string_agg(operation, '+' ORDER BY record_id) AS operation,
    any_value(is_point_to_point) AS is_point_to_point, any_value(peer) AS peer,
    any_value(p2p_sequence) AS p2p_sequence,
    string_agg(shapes, ' ' ORDER BY record_id) AS shapes,
    string_agg(dtypes, ' ' ORDER BY record_id) AS dtypes,
    string_agg(described, '; ' ORDER BY record_id) AS signature,
    bool_and(is_retired) AS is_retired, min(created_ns) AS created_ns,
    arg_min(function, record_id) AS function, arg_min(file, record_id) AS file,
    arg_min(line, record_id) AS line
FROM described
GROUP BY job, rank, group_name, sequence, single
