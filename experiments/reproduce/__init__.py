"""The figures and tables of the Fielding paper on stand-ins for its data, a TOML file each."""
