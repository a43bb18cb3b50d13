-- Every kernel record, numbered. Timeline runs fill CONCURRENT_KERNEL; runs that serialise kernels
-- (metrics, events, --concurrent-kernels off) fill KERNEL; kernels launched by kernels are in
-- CDP_KERNEL. kernel_metric needs the same numbers, hence a relation of its own.
SELECT row_number() OVER (ORDER BY source, _id_) AS kernel_id, *
FROM (
    SELECT 0 AS source, * FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL BY NAME
    SELECT 1 AS source, * FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
    UNION ALL BY NAME
    SELECT 2 AS source, * FROM CUPTI_ACTIVITY_KIND_CDP_KERNEL
)
