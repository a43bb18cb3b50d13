-- Macros shared by the rules of this directory.

-- Implausible time: more than 30 days (2592000000000000 ns) from the middle of its table, longer
-- than any recording. `middle` is the median start of the table, among starts within +-2^62.
CREATE OR REPLACE TEMP MACRO is_no_time(at_ns, middle_ns) AS
    at_ns IS NOT NULL AND NOT coalesce(
        at_ns BETWEEN middle_ns - 2592000000000000 AND middle_ns + 2592000000000000, false
    );

-- Implausible duration: negative, or above 30 days.
CREATE OR REPLACE TEMP MACRO is_no_duration(ns) AS ns < 0 OR ns > 2592000000000000;

-- Implausible size: negative, or above 16 TiB, more than the memory of any machine with GPUs.
CREATE OR REPLACE TEMP MACRO is_no_size(bytes) AS bytes < 0 OR bytes > 17592186044416;

-- Implausible number of blocks or threads along one axis. Limits: CUDA C++ Programming Guide,
-- "Technical Specifications per Compute Capability".
CREATE OR REPLACE TEMP MACRO is_no_extent(extent, most) AS extent < 1 OR extent > most;

-- Implausible number of ranks or hosts: below 1, or above 2^24, more than any machine has.
CREATE OR REPLACE TEMP MACRO is_no_rank_count(ranks) AS ranks < 1 OR ranks > 16777216;
