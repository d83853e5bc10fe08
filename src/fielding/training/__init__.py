"""Stage 10: local training, on NumPy or PyTorch, of one or of many participants at once."""
