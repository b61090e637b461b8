r"""The command as a module: :obj:`python -m meanmax`, or :obj:`torchrun -m meanmax`."""

from meanmax.cli import main

if __name__ == "__main__":
    main()
