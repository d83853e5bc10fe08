"""Stage 13: what is written down, and the checkpoint that survives a crash."""
