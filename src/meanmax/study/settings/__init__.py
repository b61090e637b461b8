r"""Settings of runs: rules, files and the search for them."""
