"""The live page over folders of runs: what `report` writes once, kept up to date in a browser."""
