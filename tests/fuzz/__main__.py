"""Runs the fuzzers: ``python -m tests.fuzz --minutes 10``.

The campaign lies in a folder and goes on where it stopped. The exit code is 1 if any case failed,
now or earlier; ``failures/`` in the folder has a script for each.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .campaign import ROOT, Campaign, replay

FUZZERS = ("numerics", "parsers", "commands", "store")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="stop after this time (default: never)")
    parser.add_argument("--cases", type=int, help="stop when each fuzzer has tried so many")
    parser.add_argument("--only", choices=FUZZERS, action="append", help="one fuzzer; repeatable")
    parser.add_argument("--seed", type=int, help="of all cases (default: the folder's, or 0)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / ".fuzz", help="the campaign's folder (default: .fuzz)"
    )
    parser.add_argument("--case", type=int, help="run one case of --only, with its traceback")
    options = parser.parse_args()
    names = options.only or list(FUZZERS)
    if options.case is not None:
        if len(names) != 1:
            parser.error("--case needs --only FUZZER")
        replay(names[0], options.seed or 0, options.case)
        return 0
    campaign = Campaign(options.out, names, options.seed)
    passed = campaign.run(options.minutes, options.cases)
    if not passed:
        print(f"failures: {options.out / 'failures'}", file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
