"""Find and remove private data."""
