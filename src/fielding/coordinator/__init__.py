"""Stages 5 to 8, on the server: moves, trigger, clustering, warm start; it never sees model weights."""
