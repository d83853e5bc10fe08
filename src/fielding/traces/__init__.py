"""Stage 0: where drifting data come from."""
