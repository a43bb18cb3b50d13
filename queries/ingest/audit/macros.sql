-- Expressions that the rules of this directory share.

-- A time that cannot be: further than 30 days from the middle of its table, as no recording is that
-- long. `middle` is the median of the table's starts (of those between -2^62 and 2^62).
CREATE OR REPLACE TEMP MACRO is_no_time(at_ns, middle_ns) AS
    at_ns IS NOT NULL AND NOT coalesce(
        at_ns BETWEEN middle_ns - 2592000000000000 AND middle_ns + 2592000000000000, false
    );

-- A size that cannot be: negative, or above 16 TiB, more than any machine of GPUs has memory.
CREATE OR REPLACE TEMP MACRO is_no_size(bytes) AS bytes < 0 OR bytes > 17592186044416;

-- A number of blocks or threads along one axis that cannot be. CUDA's limits: CUDA C++ Programming
-- Guide, "Technical Specifications per Compute Capability".
CREATE OR REPLACE TEMP MACRO is_no_extent(extent, most) AS extent < 1 OR extent > most;
