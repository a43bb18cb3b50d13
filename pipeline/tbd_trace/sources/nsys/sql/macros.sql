-- Macros shared by the mappings in this directory.

-- Key of the process in a serialized global id. Its bits, from the top: 8 hardware, 8 virtual
-- machine, 24 process, 24 thread. NULL if they contain no process.
CREATE OR REPLACE TEMP MACRO process_key(global_id) AS nullif(global_id & -16777216, 0);

-- Operating-system process id in a global id.
CREATE OR REPLACE TEMP MACRO process_number(global_id) AS (global_id >> 24) & 16777215;

-- Operating-system thread id in a global id.
CREATE OR REPLACE TEMP MACRO thread_number(global_id) AS global_id & 16777215;

-- Enumerations for short text columns: much faster to write than VARCHAR, stored as VARCHAR.
CREATE OR REPLACE TEMP MACRO api_name(name) AS
    CAST(name AS ENUM('cuda', 'cudnn', 'cublas', 'osrt'));
CREATE OR REPLACE TEMP MACRO annotation_kind(name) AS
    CAST(name AS ENUM('push_pop', 'start_end', 'mark'));
CREATE OR REPLACE TEMP MACRO annotation_source(name) AS CAST(name AS ENUM('nvtx'));

-- True if an NVTX event is a mark: type 34, or 65 from NVTX text files.
CREATE OR REPLACE TEMP MACRO is_mark(event_type) AS coalesce(event_type IN (34, 65), false);

-- end - start; NULL if the times are reversed or their difference exceeds 64 bits.
CREATE OR REPLACE TEMP MACRO span_ns(start_ns, end_ns) AS
    CASE WHEN end_ns >= start_ns THEN TRY(end_ns - start_ns) END;

-- Quantities that cannot be 0: some exports write 0 for unknown.
CREATE OR REPLACE TEMP MACRO known(quantity) AS CASE WHEN quantity > 0 THEN quantity END;

-- CUDA numbers: 2^32 - 1 means "does not apply".
CREATE OR REPLACE TEMP MACRO applicable(number) AS nullif(number, 4294967295);

-- Value shared by all rows of a group; NULL if they differ or any row lacks it.
CREATE OR REPLACE TEMP MACRO agreed(x) AS
    CASE WHEN min(x) = max(x) AND count(x) = count(*) THEN min(x) END;

-- Name of a CUDA function without its version (_v7000, _v2) and per-thread-stream suffixes.
CREATE OR REPLACE TEMP MACRO function_name(name) AS
    regexp_replace(name, '(_v[0-9]+|_ptsz|_ptds)+$', '');
