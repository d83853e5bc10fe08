"""Private reports: noise on counts, what a sample changes in them, the rule that bounds both, and the spent budget."""
