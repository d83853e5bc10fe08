"""Learned tau against fixed ones: what is run (cases), in which order (running), and what it comes to (verdicts)."""
