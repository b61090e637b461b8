r"""What rows support: cells, paired comparisons, verdicts."""
