/*
title = "One process group in a dump of PyTorch's Flight Recorder on one rank."
[privacy]
group_name        = "text"
group_description = "text"
ranks             = "fixed"
evidence          = "fixed"
[advice]
missing = """needs dumps of PyTorch's Flight Recorder; record them with
`tbd-trace collect --ranks N`, or set TORCH_FR_BUFFER_SIZE=2000"""
*/
CREATE TABLE flight_group (
    trace_id          VARCHAR NOT NULL, -- the trace: the dump of one rank
    local_group_id    BIGINT,           -- id of the group on this rank; NULL when unknown
    group_name        VARCHAR,          -- name of the group; NULL when unknown
    group_description VARCHAR,          -- purpose of the group
    ranks             VARCHAR,          -- its ranks as PyTorch lists them; NULL with gloo
    last_enqueued     BIGINT,           -- number of the last operation called; NULL without one
    last_started      BIGINT,           -- number of the last operation started
    last_completed    BIGINT,           -- number of the last operation completed
    evidence          VARCHAR           -- what joins name and local id: entries, or order (of the
                                        -- groups); NULL if they are not joined
);
