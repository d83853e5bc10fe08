"""Is ``auto`` ever worse than the best of its rivals? Eight scenarios, ten rivals, seeds to choose and to score by."""
