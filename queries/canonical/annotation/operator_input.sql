/*
title = """
Recorded inputs of one call of an operator of PyTorch whose FLOP follow from them: a matrix product,
a convolution or an attention."""
size  = "long"
[privacy]
operator     = "code"
input_dims   = "fixed"
input_types  = "fixed"
input_values = "fixed"
[advice]
missing = """
needs shapes of the inputs of operators; record them with
`torch.profiler.profile(..., record_shapes=True)`"""
*/
CREATE TABLE operator_input (
    trace_id      VARCHAR NOT NULL, -- the trace
    annotation_id BIGINT NOT NULL,  -- the call (annotation)
    operator      VARCHAR NOT NULL, -- name, such as aten::mm
    input_dims    VARCHAR,          -- JSON: a list of dimensions per argument; empty or null for
                                    -- arguments that are not tensors
    input_types   VARCHAR,          -- JSON: a type per argument: float64, float32, float16,
                                    -- bfloat16, float8, float4; null for others
    input_values  VARCHAR           -- JSON: a number, bool or list of these per argument; null for
                                    -- tensors; NULL if not recorded
);
