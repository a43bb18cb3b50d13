"""Run training programs under profilers and write the results as capture directories."""
