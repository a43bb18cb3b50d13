/*
title    = "Counters of a timeline"
question = "What did each periodic GPU metric read, when?"
grain    = "one value of one metric of one GPU"
needs    = ["trace"]
optional = ["gpu_sample"]
[columns.gpu_id]
doc = "physical GPU; NULL where the file does not tell"
[columns.metric]
doc = "metric"
[columns.unit]
doc = "its unit; NULL where nothing tells"
[columns.timestamp_ns]
unit = "ns"
doc = "when"
[columns.value]
doc = "value"
*/
SELECT gpu_id, metric, unit, timestamp_ns, value
FROM gpu_sample
WHERE value IS NOT NULL
ORDER BY gpu_id, metric, timestamp_ns, value
