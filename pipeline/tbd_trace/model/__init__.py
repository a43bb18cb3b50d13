"""The canonical tables as their files declare them."""
