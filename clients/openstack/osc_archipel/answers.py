"""What answers say of sites: the header `Scope-Sites`, and the tags of the items of merged lists."""

import re

TAG = "scope_site"
# Says that a list is not whole.
INCOMPLETE = "299"
# A site that was asked in vain because another was faster has not failed.
NO_FAILURES = ("cancelled",)

MEMBER = re.compile(r'\s*"((?:[^"\\]|\\.)*)"((?:\s*;\s*[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[^"\\]|\\.)*"|[^;,"\s]+))?)*)\s*(?:,|$)')
PARAMETER = re.compile(r';\s*([a-z*][a-z0-9_.*-]*)(?:=("(?:[^"\\]|\\.)*"|[^;,"\s]+))?')


def sites(text):
    """The members of a `Scope-Sites`: pairs of a site and its parameters. What is no such list has none."""
    members, position = [], 0
    while position < len(text):
        found = MEMBER.match(text, position)
        if not found:
            return []
        parameters = {
            name: True if value == "" else value.strip('"') for name, value in PARAMETER.findall(found.group(2))
        }
        members.append((found.group(1).replace('\\"', '"').replace("\\\\", "\\"), parameters))
        position = found.end()
    return members


def complaints(headers):
    """What a person should know of an answer that is otherwise a success."""
    incomplete = headers.get("Warning", "").startswith(INCOMPLETE)
    for site, said in sites(headers.get("Scope-Sites", "")):
        error, status = said.get("error"), said.get("status", "")
        if "diverged" in said:
            yield f"{site} diverged: it refused this with status {status}"
        elif incomplete and (error or not status.startswith("2")):
            yield f"{site} is missing from this list ({error or f'status {status}'})"
        elif error and error not in NO_FAILURES:
            yield f"{site} did not answer ({error})"


class Tags:
    """Which site each item came from, by the item's id or, where it has none, its name.

    Sites may have items of the same id, such as flavors: these are told apart by their order.
    """

    def __init__(self):
        self.seen = {}

    def add(self, document):
        """Notes the tagged items of a list."""
        lists = [document] if isinstance(document, list) else document.values() if isinstance(document, dict) else []
        for items in lists:
            for item in items if isinstance(items, list) else []:
                if isinstance(item, dict) and item.get(TAG):
                    for key in keys(item):
                        self.seen.setdefault(key, []).append(item[TAG])

    def columns(self, names, rows):
        """The rows with one more column, if any of them is of a tagged item."""
        turns, sites, known = {}, [], False
        for row in rows:
            site = self.site(names, row, turns)
            known = known or site is not None
            sites.append(site)
        if not known:
            return names, rows
        added = [(*row, site or "") for row, site in zip(rows, sites)]
        return (*names, "Site"), added

    def site(self, names, row, turns):
        for wanted in ("ID", "Id", "Member ID", "Zone Name", "Name"):
            if wanted in names:
                key = str(row[list(names).index(wanted)])
                if key in self.seen:
                    turn = turns[key] = turns.get(key, -1) + 1
                    of = self.seen[key]
                    return of[min(turn, len(of) - 1)]
        return None


def keys(item):
    """What a row may show of an item: a key pair is an object in an object."""
    inner = [value for value in item.values() if isinstance(value, dict) and "name" in value] if "id" not in item else []
    for one in [item, *inner]:
        for name in ("id", "member_id", "zoneName", "name"):
            if one.get(name) is not None:
                return [str(one[name])]
    return []
