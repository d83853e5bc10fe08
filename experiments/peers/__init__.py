"""Fielding against its peers: what is compared (rows), on what (benchmarks), with which knobs (tuning)."""
