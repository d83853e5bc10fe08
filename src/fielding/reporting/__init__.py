"""Stage 13: from records to numbers, figures and pages."""
