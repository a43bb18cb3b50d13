"""Why training is slow and what a change would gain, by replay of the trace."""
