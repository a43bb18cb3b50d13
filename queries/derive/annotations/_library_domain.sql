/*
title    = "Domains of libraries"
question = "Which NVTX domains annotate libraries, not the model?"
grain    = "one such domain"
optional = ["annotation"]
[params.library_domains]
doc = "regular expression of NVTX domains that annotate libraries, not the model: their ranges are no layers"
default = "(?i)^(nccl|dali|mpi|cccl|cub|thrust|cudnn|cublas|cufft|cusparse|cusolver|cuda|nvshmem|ucx|rmm|libcudf|nsys|python)"
[columns.domain]
doc = "name of the domain"
*/
SELECT DISTINCT domain
FROM annotation
WHERE regexp_matches(domain, coalesce(getvariable('library_domains'),
    '(?i)^(nccl|dali|mpi|cccl|cub|thrust|cudnn|cublas|cufft|cusparse|cusolver|cuda|nvshmem|ucx|rmm|libcudf|nsys|python)'))
