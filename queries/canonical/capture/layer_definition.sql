/*
title = "One layer of the model, from layers.json of a capture directory."
[privacy]
precision  = "fixed"
layer      = "text"
layer_type = "text"
[advice]
missing = "needs layers.json beside the trace, in a capture directory"
*/
CREATE TABLE layer_definition (
    trace_id          VARCHAR NOT NULL, -- the trace
    layer             VARCHAR NOT NULL, -- layer name, as in the layer's NVTX ranges
    position          INTEGER NOT NULL, -- order in the forward pass, from 0
    layer_type        VARCHAR,          -- such as Conv2d, LSTM, Linear
    parameters        BIGINT,           -- trainable parameters
    weight_bytes      BIGINT,           -- bytes of the weights
    gradient_bytes    BIGINT,           -- bytes of the weight gradients
    feature_map_bytes BIGINT,           -- bytes of the output per sample
    forward_flop      DOUBLE,           -- floating-point operations of the forward pass per sample
    backward_flop     DOUBLE,           -- floating-point operations of the backward pass per sample
    precision         VARCHAR           -- arithmetic: fp32, tf32, fp16, bf16; NULL means fp32
);
