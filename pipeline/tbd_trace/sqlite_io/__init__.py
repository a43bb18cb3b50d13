"""Read SQLite files page by page."""
