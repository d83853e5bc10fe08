"""A Flower app whose nodes do what a script says, for tests."""
