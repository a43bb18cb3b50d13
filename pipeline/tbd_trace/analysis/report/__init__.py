"""Reports: self-contained HTML pages of what the queries say about traces."""
