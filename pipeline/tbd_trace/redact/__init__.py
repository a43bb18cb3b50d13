"""Find private data in profiles and traces, and redact it."""
