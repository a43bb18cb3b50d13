/*
title    = "Large collectives leave the link idle"
question = "Which share of the link do large collectives reach?"
source   = """bus bandwidth (nccl-tests) of the median time of collectives of one kind and size
    (collective_bandwidth)"""
grain    = "job, or trace without a known rank: the kind and size with the smallest share"
needs    = ["trace"]
optional = ["collective_rate"]
[check]
rule = "NET03"
scope = "job"
thresholds = "proposed"
advice = """compare with the link alone ({link}; tbd-trace query link_summary); look at
    NCCL_DEBUG=INFO for the network and algorithm, and at compute kernels and copies that run at
    the same time"""
collect = """traces of all ranks, with the bytes of collectives (record_shapes=True), and the link:
    --set link_gbit=N, or a log of its test ingested with the job"""
[params.min_link_pct]
doc = "minimum share of the bandwidth of the link, in percent"
default = 70.0
[params.large_bytes]
doc = "minimum size of a large collective"
default = 16777216
[params.min_large_collectives]
doc = "minimum number of collectives of a kind and size"
default = 3
*/
WITH
setting AS (
    SELECT getvariable('min_link_pct')::DOUBLE AS min_link_pct,
        getvariable('large_bytes')::BIGINT AS large_bytes,
        getvariable('min_large_collectives')::BIGINT AS min_collectives
),
large AS (
    SELECT r.*, coalesce(r.job, n.name) AS label, s.min_link_pct,
        r.bytes >= s.large_bytes AND r.collectives >= s.min_collectives
            AND r.busbw_bytes_per_s IS NOT NULL AS is_large,
        -- A duration includes the wait for other ranks, which can make the share small.
        r.link_pct >= s.min_link_pct OR r.basis = 'transfer' AND r.link_pct IS NOT NULL
            AS is_decided
    FROM collective_rate r
    CROSS JOIN setting s
    LEFT JOIN trace n ON n.trace_id = r.trace_id
),
worst AS (
    SELECT * FROM large
    QUALIFY row_number() OVER (
        PARTITION BY label, trace_id
        ORDER BY is_large DESC NULLS LAST, is_decided DESC NULLS LAST, link_pct, bytes DESC, kind,
            group_size, basis) = 1
),
evaluated AS (
    SELECT w.*, s.large_bytes, s.min_collectives,
        CASE WHEN w.is_large IS NOT TRUE OR w.is_decided IS NOT TRUE THEN 'not evaluable'
             WHEN w.link_pct < w.min_link_pct THEN 'finding' ELSE 'pass' END AS answer
    FROM worst w CROSS JOIN setting s
)
SELECT trace_id, answer AS verdict,
    CASE WHEN answer = 'finding' THEN 'warning' END AS severity,
    CASE WHEN answer <> 'not evaluable' THEN link_pct END AS value,
    min_link_pct AS threshold, '%' AS unit,
    CASE WHEN answer <> 'not evaluable' THEN link_evidence END AS evidence,
    label || ': ' || CASE
        WHEN is_large IS NOT TRUE THEN format(
            'fewer than {} collectives of one kind and at least {} have a known bus bandwidth',
            min_collectives, format_bytes(large_bytes))
        WHEN link_pct IS NULL THEN 'the bandwidth of the link is unknown'
        WHEN is_decided IS NOT TRUE THEN format(
            '{} of {} reaches {:.1f} % of the link, but with the wait for other ranks', kind,
            format_bytes(bytes), link_pct)
        ELSE format('{} of {} between {} ranks moves {:.3g} GB/s over the bus, {:.1f} % of the '
                || '{:.3g} GB/s of the link ({} collectives)',
            kind, format_bytes(bytes), group_size, busbw_bytes_per_s / 1e9, link_pct,
            link_bytes_per_s / 1e9, collectives)
    END AS reason,
    NULL::VARCHAR AS advice
FROM evaluated
UNION ALL
SELECT NULL, 'not evaluable', NULL, NULL, min_link_pct, '%', NULL,
    'no trace has collectives', NULL
FROM setting WHERE NOT EXISTS (SELECT 1 FROM evaluated)
ORDER BY trace_id, reason
