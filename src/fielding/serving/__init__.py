"""What a client makes of the model that serves it (stage 12): plain functions on arrays."""
