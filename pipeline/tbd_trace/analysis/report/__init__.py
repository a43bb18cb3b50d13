"""Reports: self-contained HTML pages with the results of queries."""
