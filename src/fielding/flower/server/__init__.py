"""The server: the engine's clients behind Flower's nodes, one push a round, and a run folder that survives crashes."""
