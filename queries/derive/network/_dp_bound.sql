/*
title    = "Bounds of an iteration with all-reduce"
question = "Which sequences of buckets can an iteration not end before?"
source   = """a bucket starts when it is ready and the one before is done, so the last one ends at
    the latest of: a bucket is ready, and it and all later ones are reduced without a pause"""
grain    = "trace, scheme and bucket"
needs    = ["_dp_layer", "_dp_run"]
returns = ["trace_id", "scheme", "start_s", "all_reduces", "bytes"]
[columns]
scheme = "ddp or serial"
start_s = {unit = "s", doc = """time of the iteration without communication that comes before and
    after"""}
all_reduces = "all-reduces after it"
bytes = {unit = "byte", doc = "their bytes"}
*/
WITH bucket AS (
    SELECT trace_id, bucket, max(ready_s) AS ready_s, sum(gradient_bytes) AS size
    FROM _dp_layer GROUP BY trace_id, bucket
)
SELECT b.trace_id, 'ddp' AS scheme, r.forward_s + b.ready_s + r.rest_s AS start_s,
    count(*) OVER later AS all_reduces, sum(b.size) OVER later AS bytes
FROM bucket b JOIN _dp_run r USING (trace_id)
WINDOW later AS (PARTITION BY b.trace_id ORDER BY b.bucket DESC)
UNION ALL
SELECT b.trace_id, 'serial', r.alone_s, count(*), sum(b.size)
FROM bucket b JOIN _dp_run r USING (trace_id) GROUP BY b.trace_id, r.alone_s
