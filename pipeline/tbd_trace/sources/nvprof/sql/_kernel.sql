-- All kernel records, numbered. Timeline runs fill CONCURRENT_KERNEL; runs that serialize kernels
-- (metrics, events, --concurrent-kernels off) fill KERNEL; kernels launched by kernels are in
-- CDP_KERNEL. A separate relation, because kernel_metric uses the same numbers.
SELECT row_number() OVER (ORDER BY source, _id_) AS kernel_id, *
FROM (
    SELECT 0 AS source, * FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL BY NAME
    SELECT 1 AS source, * FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
    UNION ALL BY NAME
    SELECT 2 AS source, * FROM CUPTI_ACTIVITY_KIND_CDP_KERNEL
)
