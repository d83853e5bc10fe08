"""Fielding against its peers: what is compared (rows), on what (grounds), with which knobs (tuning), and what came."""
