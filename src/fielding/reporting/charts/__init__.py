"""The sections of a report: each takes the runs that were gathered and says what is to be seen, or why nothing is."""
