"""How much memory and processor time processes use, with their children."""

import os
import resource

TICKS = os.sysconf("SC_CLK_TCK")


def groups(measure):
    """A measure of every process, summed by process group; what cannot be read counts nothing."""
    used = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                group, value = os.getpgid(int(entry)), measure(entry)
            except OSError:
                continue
            used[group] = used.get(group, 0) + value
    return used


def mib(pid):
    """Resident memory; what several processes share is shared out among them."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024


def seconds(pid):
    """Processor time, that of ended children included."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def own_commands():
    """Processor time of the commands that this one ran to their end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
