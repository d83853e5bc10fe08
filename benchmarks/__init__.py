"""Fielding measured beside its peers; `make bench` runs it."""
