"""The paper's own settings, for those who have its data: a config for each row of its two tables."""
