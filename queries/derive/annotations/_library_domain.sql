/*
title    = "NVTX domains of libraries"
question = "Which NVTX domains annotate libraries instead of the model?"
grain    = "NVTX domain"
optional = ["annotation"]
[params.library_domains]
doc = "regular expression (RE2) for NVTX domains of libraries; their ranges are not layers"
default = """\
    (?i)^(nccl|dali|mpi|cccl|cub|thrust|cudnn|cublas|cufft|cusparse|cusolver|cuda|nvshmem|ucx|rmm\
    |libcudf|nsys|python)"""
[columns]
domain = "name of the domain"
*/
SELECT DISTINCT domain
FROM annotation
WHERE regexp_matches(domain, getvariable('library_domains'))
