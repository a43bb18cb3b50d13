"""CSV text as profilers print it."""
