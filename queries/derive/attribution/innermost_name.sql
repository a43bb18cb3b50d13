/*
title    = "Names of innermost ranges"
question = "What is the name of each range that is innermost around a launch?"
grain    = "range that is innermost around a launch"
needs    = ["_innermost_range"]
optional = ["annotation_range"]
returns = ["trace_id", "annotation_id", "kind", "domain", "name"]
[params.by]
doc = """name: texts without the numbers added by torch.autograd.profiler.emit_nvtx (aten::addmm,
    seq = 4 and aten::addmm, seq = 9 have one name); text: full texts"""
choices = ["name", "text"]
default = "name"
[columns]
annotation_id = "the range"
kind = "push_pop or start_end"
domain = "NVTX domain; NULL for the default domain"
name = "text of the range; with by=name, without the numbers"
*/
-- The same split as in _annotation_role.
SELECT r.trace_id, r.annotation_id, r.kind, r.domain,
    CASE WHEN getvariable('by') = 'text' THEN r.text
         WHEN regexp_matches(r.text, '^[^,]*,\s*(?:seq|op_id|sizes|input_op_ids)\s*=')
         THEN left(r.text, strpos(r.text, ',') - 1)
         ELSE regexp_replace(r.text, '(?s),\s*(?:seq|op_id|sizes|input_op_ids)\s*=.*', '')
    END AS name
FROM annotation_range r
SEMI JOIN _innermost_range USING (trace_id, annotation_id)
