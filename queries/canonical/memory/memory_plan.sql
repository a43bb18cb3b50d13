/*
title = """One value in an allocation of a compiler's memory plan; several values share one
    allocation."""
[privacy]
kind        = "fixed"
class       = "fixed"
shape       = "fixed"
computation = "text"
value_name  = "text"
[advice]
missing = "needs a memory plan; XLA writes one with `XLA_FLAGS=--xla_dump_to=DIR`"
*/
CREATE TABLE memory_plan (
    trace_id     VARCHAR NOT NULL, -- the trace
    computation  VARCHAR,          -- computation or module
    allocation   BIGINT,           -- number of the allocation
    bytes        BIGINT,           -- size of the allocation
    offset_bytes BIGINT,           -- offset of the value in the allocation
    value_name   VARCHAR,          -- value
    value_bytes  BIGINT,           -- size of the value
    shape        VARCHAR,          -- shape and type of the value
    kind         VARCHAR,          -- parameter, output, constant, thread-local, temporary
    class        VARCHAR           -- class of the value, see allocation; unknown without evidence
);
