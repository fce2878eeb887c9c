#!/usr/bin/env python3
"""Counts what a request takes on the thin path, and fails if it is much more than is written down: `./test speed`.

User instructions are the same from run to run, on a busy machine too. They are those of the build that tests use,
which is not optimised: they say nothing of how fast Archipel is (`./bench forward` does), only whether a change made
it slower. `--record` writes them down, for a change that is worth it."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import instructions
import proxies
from rig import LOAD_CORE, Rig, free_ports

RECORDED = Path(__file__).resolve().parent / "speed.json"
MOST = 1.10
REQUESTS = 480


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("program", type=Path, help="the archipel to count")
    options.add_argument("--record", action="store_true", help="write the figures down")
    options = options.parse_args()
    counts = counted(options.program.resolve())
    if options.record:
        RECORDED.write_text(json.dumps(counts, indent=1) + "\n")
        return
    recorded = json.loads(RECORDED.read_text())
    slower = [name for name, count in counts.items() if count > MOST * recorded[name]]
    for name, count in counts.items():
        print(f"  {name:34}{count / recorded[name] - 1:+8.1%} of the {recorded[name]:,} that are written down")
    if slower:
        sys.exit(f"slower by more than {MOST - 1:.0%}: {', '.join(slower)}. If that is worth it: "
                 "python3 benches/speed.py --record PROGRAM")


def counted(program):
    with Rig() as rig:
        # Reading what a debugger needs would take longer than all else.
        subprocess.run(["strip", "-g", "-o", rig.dir / "archipel", program], check=True)
        program = rig.dir / "archipel"
        backend, *ports = free_ports(3)
        rig.start("backend", proxies.backend(rig, backend), LOAD_CORE, backend)
        compared = [
            proxies.archipel(rig, "thin unscoped", ports[0], backend, scoped=False, thin=True, program=program),
            proxies.archipel(rig, "thin scoped", ports[1], backend, scoped=True, thin=True, program=program),
        ]
        return instructions.per_request(rig, compared, REQUESTS)


if __name__ == "__main__":
    main()
