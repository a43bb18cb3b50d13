/*
title    = "Counters of a timeline"
question = "What were the values of each periodic GPU metric over time?"
grain    = "sample of a metric of a GPU"
needs    = ["trace"]
optional = ["gpu_sample"]
[columns.gpu_id]
doc = "physical GPU; NULL if the file does not record it"
[columns.metric]
doc = "name of the metric"
[columns.unit]
doc = "unit of the metric; NULL when unknown"
[columns.timestamp_ns]
unit = "ns"
doc = "time of the sample"
[columns.value]
doc = "value in this unit"
*/
SELECT gpu_id, metric, unit, timestamp_ns, value
FROM gpu_sample
WHERE value IS NOT NULL
ORDER BY gpu_id, metric, timestamp_ns, value
