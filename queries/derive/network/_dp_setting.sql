/*
title    = "Setting of data-parallel training"
question = "Which link and which framework does a prediction assume?"
grain    = "prediction: one row"
[params.link_efficiency]
doc = """usable share of the bandwidth: measured bus bandwidth ÷ nominal; 0: as in job_link, 1
    without a benchmark"""
default = 0.0
minimum = 0
[params.uncertainty_pct]
doc = "uncertainty of link_efficiency in percent, for the columns low and high"
default = 5.0
minimum = 0
[params.host_bytes_per_s]
doc = """bytes of gradients that a host can reduce per second; 0: no limit; -1: as in job_link; no
    limit without a benchmark"""
default = -1.0
minimum = -1
[params.latency_s]
doc = "latency of a message, in seconds; an all-reduce by N workers takes 2 (N − 1)"
default = 0.000005
minimum = 0
[params.all_reduce_s]
doc = """duration of an all-reduce of 4 bytes, in seconds; replaces the latencies of an all-reduce;
    -1: as in job_link; latencies without a benchmark"""
default = -1.0
minimum = -1
[params.optimizer_s]
doc = "time of the optimizer after the backward pass, in seconds"
default = 0.0
minimum = 0
[params.tail_s]
doc = """rest of an iteration outside layers and optimizer, in seconds; -1: median
    iteration of a trace − its layers; 0 for a layer list"""
default = -1.0
minimum = -1
[params.first_bucket_bytes]
doc = """bytes that close the first bucket; PyTorch uses 1 MiB, or bucket_cap_mb if the program
    sets it"""
default = 1048576
minimum = 1
[params.bucket_bytes]
doc = "bytes that close each later bucket"
default = 26214400
minimum = 1
[params.slice_bytes]
doc = "largest slice of p3; 40,000 parameters of 4 bytes"
default = 160000
minimum = 1
[params.scheme]
doc = """ddp: ring all-reduce of buckets during the backward pass; serial: after it; ps: co-located
    parameter servers, layers in the order of their gradients; p3: slices, the first layers first;
    fsdp: sharded parameters, gathered before both passes while the layer before runs"""
choices = ["all", "ddp", "serial", "ps", "p3", "fsdp"]
default = "all"
[params.workers]
doc = "numbers of workers, separated by commas"
default = "2,4,8,16"
items = "integer"
minimum = 1
[columns]
link_efficiency = "usable share of the bandwidth; NULL: as measured"
uncertainty = "its relative uncertainty"
host_byte_s = {unit = "s", doc = "time of a host per byte of gradients; NULL: as measured"}
latency_s = {unit = "s", doc = "latency of a message"}
all_reduce_s = {unit = "s", doc = "duration of an all-reduce of few bytes; NULL: as measured"}
optimizer_s = {unit = "s", doc = "time of the optimizer"}
tail_s = {unit = "s", doc = "rest of an iteration; NULL: as measured"}
first_bucket_bytes = "bytes that close the first bucket"
bucket_bytes = "bytes that close each later bucket"
slice_bytes = "largest slice of p3"
schemes = "schemes that are asked for"
workers = "numbers of workers"
*/
SELECT nullif(getvariable('link_efficiency')::DOUBLE, 0) AS link_efficiency,
    getvariable('uncertainty_pct')::DOUBLE / 100 AS uncertainty,
    CASE WHEN getvariable('host_bytes_per_s')::DOUBLE >= 0
        THEN coalesce(1 / nullif(getvariable('host_bytes_per_s')::DOUBLE, 0), 0) END AS host_byte_s,
    getvariable('latency_s')::DOUBLE AS latency_s,
    if(getvariable('all_reduce_s')::DOUBLE < 0, NULL,
        getvariable('all_reduce_s'))::DOUBLE AS all_reduce_s,
    getvariable('optimizer_s')::DOUBLE AS optimizer_s,
    if(getvariable('tail_s')::DOUBLE < 0, NULL, getvariable('tail_s'))::DOUBLE
        AS tail_s,
    getvariable('first_bucket_bytes')::BIGINT AS first_bucket_bytes,
    getvariable('bucket_bytes')::BIGINT AS bucket_bytes,
    getvariable('slice_bytes')::BIGINT AS slice_bytes,
    CASE getvariable('scheme')
        WHEN 'all' THEN ['ddp', 'serial', 'ps', 'p3', 'fsdp']
        ELSE [getvariable('scheme')::VARCHAR] END AS schemes,
    list_distinct(string_split(getvariable('workers'), ',')::BIGINT[])
        AS workers
