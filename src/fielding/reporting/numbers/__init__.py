"""Figures of runs: what a page or a table shows, computed from run folders alone."""
