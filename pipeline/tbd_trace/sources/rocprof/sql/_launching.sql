-- Calls of HSA that a call of HIP made: the latter launched the operation.
SELECT h.part, h.pid, h.call_id, any_value(h.parent_id) AS parent_id
FROM record_call AS h
JOIN record_call AS c ON c.part = h.part AND c.pid = h.pid AND c.call_id = h.parent_id
WHERE starts_with(h.category, 'HSA') AND starts_with(c.category, 'HIP')
GROUP BY ALL
