"""What representations of clients' data see, what they are worth in training, and what they cost."""
