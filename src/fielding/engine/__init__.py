"""What drives the stages: the replay of recorded reports."""
