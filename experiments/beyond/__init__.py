"""Is ``auto`` ever worse than the best of its rivals? Twelve scenarios, thirteen rivals, two scores."""
