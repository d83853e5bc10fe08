"""Handwritten digits whose owners move between two places, as a Flower app."""
