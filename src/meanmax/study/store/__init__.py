r"""Where runs are kept, exported and merged."""
