"""nvprof: SQLite databases and CSV."""
