"""A device: a runtime of one client with files, answers that may be asked for twice, and the user's own code."""
