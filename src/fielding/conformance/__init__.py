"""The checks that every method passes, ours and yours: ``fielding methods NAME --check``."""
