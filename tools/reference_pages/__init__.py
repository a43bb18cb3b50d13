"""Render the pages of docs/reference that follow from the code; ``make_docs`` writes them."""
