"""Driver 1: a whole federation in one process, on simulated time."""
