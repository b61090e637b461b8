r"""The commands, one file each."""
