"""Record or estimate the memory of an unedited training program."""
