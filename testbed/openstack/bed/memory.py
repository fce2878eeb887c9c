"""How much memory processes use, with that of their children."""

import os


def by_group():
    """Resident memory in MiB by process group; what several processes share is shared out among them."""
    used = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            group = os.getpgid(int(entry))
            with open(f"/proc/{entry}/smaps_rollup", encoding="ascii") as rollup:
                sizes = [int(line.split()[1]) for line in rollup if line.startswith("Pss:")]
        except OSError:
            continue
        used[group] = used.get(group, 0) + sum(sizes) / 1024
    return used
