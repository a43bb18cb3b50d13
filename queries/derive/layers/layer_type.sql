/*
title    = "Layer types"
question = "What is the type of each layer?"
grain    = "layer, per trace"
needs    = ["op_scope", "kernel_class", "module_classes"]
optional = ["layer_definition", "annotation_semantics", "_module_call"]
returns = ["trace_id", "layer", "layer_type", "type_evidence"]
[columns]
layer = "the layer"
layer_type = "type of the layer"
type_evidence = """layers.json (type given by the workload), module class (class of a PyTorch
    module) or kernel name (class of the kernels with the most time)"""
*/
WITH
by_kernel AS (
    SELECT o.trace_id, o.layer, c.class, sum(o.duration_ns) AS total_ns
    FROM op_scope o
    JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    WHERE o.op_kind = 'kernel' AND o.layer IS NOT NULL
    GROUP BY ALL
),
named AS (
    SELECT trace_id, layer, arg_max(class, {'ns': total_ns, 'class': class}) AS class
    FROM by_kernel WHERE class <> 'other' GROUP BY ALL
),
-- An implicit product of matrices has a name like that of a product; the module is a convolution.
module AS (
    SELECT m.trace_id, m.module AS layer, arg_max(c.layer_type, c.priority) AS layer_type
    FROM (
        SELECT trace_id, module, regexp_replace(module, '^.*/|_\d+$', '', 'g') AS class
        FROM _module_call
    ) m
    JOIN module_classes c ON regexp_matches(m.class, c.pattern)
    GROUP BY ALL
),
seen AS (
    SELECT trace_id, layer FROM op_scope WHERE layer IS NOT NULL
    UNION
    SELECT trace_id, layer FROM annotation_semantics WHERE layer IS NOT NULL
)
SELECT s.trace_id, s.layer, coalesce(d.layer_type, m.layer_type, n.class) AS layer_type,
    CASE WHEN d.layer_type IS NOT NULL THEN 'layers.json'
         WHEN m.layer_type IS NOT NULL THEN 'module class'
         WHEN n.class IS NOT NULL THEN 'kernel name' END AS type_evidence
FROM seen s
LEFT JOIN layer_definition d ON d.trace_id = s.trace_id AND d.layer = s.layer
LEFT JOIN module m ON m.trace_id = s.trace_id AND m.layer = s.layer
LEFT JOIN named n ON n.trace_id = s.trace_id AND n.layer = s.layer
