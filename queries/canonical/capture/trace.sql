/*
title = "One ingested profiler file; the catalogue of the database."
[privacy]
sha256         = "fixed"
format         = "fixed"
tool           = "fixed"
tool_version   = "fixed"
export_version = "fixed"
schema_version = "fixed"
kind           = "fixed"
holds          = "fixed"
lacks          = "fixed"
ingested_by    = "fixed"
name           = "text"
capture_id     = "text"
notes          = "text"
path           = "file"
capture        = "document"
*/
CREATE TABLE trace (
    trace_id       VARCHAR NOT NULL, -- first 12 hexadecimal digits of the file's SHA-256 (above 64
                                     -- MiB, of its size and samples); in a capture directory,
                                     -- salted with its metadata
    name           VARCHAR NOT NULL, -- file name; in a capture directory, directory/file name
    path           VARCHAR,          -- absolute path of the file
    sha256         VARCHAR,          -- SHA-256 of the profiler file; NULL above 64 MiB
    file_bytes     BIGINT,           -- size of the profiler file
    format         VARCHAR NOT NULL, -- reader of the file: nsys-sqlite, nsys-report,
                                     -- nvprof-sqlite, nvprof-csv, ncu-csv,
                                     -- torch-memory-snapshot, torch-json, memory-log,
                                     -- nccl-tests-log, rocpd-sqlite, rocprof-json
    tool           VARCHAR NOT NULL, -- profiler that recorded the data: nsys, nvprof, ncu,
                                     -- torch, tbd-trace, nccl-tests, rocprof
    tool_version   VARCHAR,          -- version of the profiler at capture time; NULL when unknown
    export_version VARCHAR,          -- version of the tool that wrote this export; NULL when
                                     -- unknown
    schema_version VARCHAR,          -- version of the file's schema; NULL when unknown
    kind           VARCHAR NOT NULL, -- kind of measurement: timeline, metrics (serialized, replayed
                                     -- kernels), summary (aggregates only), memory
                                     -- (allocations)
    capture_id     VARCHAR,          -- common to the files of one capture directory; NULL outside
                                     -- of one
    capture        VARCHAR,          -- capture.json as JSON text, without environment variables and
                                     -- command-line secrets
    batch_size     BIGINT,           -- samples per iteration and process, from capture.json
    utc_start_ns   BIGINT,           -- UTC epoch time of trace time 0; NULL when unknown
    start_ns       BIGINT,           -- earliest event, trace clock
    end_ns         BIGINT,           -- latest event, trace clock
    holds          VARCHAR[],        -- canonical tables with rows
    lacks          VARCHAR[],        -- canonical tables without rows
    notes          VARCHAR[],        -- notes for users: reader warnings, implausible rows,
                                     -- disagreeing clocks
    ingested_at    TIMESTAMP,        -- UTC time of ingestion
    ingested_by    VARCHAR           -- tbd-trace version that ingested the file
);
