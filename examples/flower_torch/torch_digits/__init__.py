"""Handwritten digits in PyTorch: a model, a training loop and a test of one's own, as a Flower app on Fielding."""
