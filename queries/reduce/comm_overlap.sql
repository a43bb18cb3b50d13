-- Each trace has its rows in order; ranks come before traces.
SELECT * FROM mapped ORDER BY job, rank, trace_id, rowid
