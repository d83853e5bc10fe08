"""Is ``auto`` ever worse than the best of its rivals? Twelve scenarios, eight rivals, two scores."""
