"""Read the static memory plans of XLA."""
