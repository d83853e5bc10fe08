"""Is ``auto`` ever worse than the best of its rivals? Twelve scenarios, twelve rivals, two scores."""
