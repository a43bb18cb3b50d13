"""Fuzzing of all readers: damaged and hostile files get an answer, a note or one line of error."""
