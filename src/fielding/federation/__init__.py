"""What a federation needs around its clusters, whatever framework drives it: models, selection, aggregation, costs."""
