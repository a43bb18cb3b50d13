"""Running workloads under profilers, and writing what they leave as a capture directory."""
