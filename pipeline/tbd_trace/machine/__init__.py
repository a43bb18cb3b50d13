"""The machine that the program runs on: installed profilers, frameworks and GPUs."""
