"""Benchmarks: ours, the peers and the bound take turns in one run, and their results are compared."""
