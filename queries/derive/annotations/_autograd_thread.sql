/*
title    = "Autograd threads"
question = "Which threads run backward operators for other threads?"
source   = """the PyTorch autograd engine runs backward operators on separate threads, named
    pt_autograd_…"""
grain    = """thread with backward operators and without forward operators whose nodes they run, or
    with such a name"""
optional = ["_sequence_layer", "annotation_semantics", "thread"]
returns = ["trace_id", "process_id", "thread_id"]
*/
SELECT m.trace_id, m.process_id, m.thread_id
FROM annotation_semantics m
SEMI JOIN _sequence_layer s ON s.trace_id = m.trace_id AND s.backward_range_id = m.annotation_id
EXCEPT
SELECT m.trace_id, m.process_id, m.thread_id
FROM annotation_semantics m
SEMI JOIN _sequence_layer s ON s.trace_id = m.trace_id AND s.forward_range_id = m.annotation_id
UNION
SELECT trace_id, process_id, thread_id FROM thread WHERE starts_with(name, 'pt_autograd')
