"""`openstack site list`: which sites there are."""

from urllib.parse import urlsplit, urlunsplit

from osc_lib import exceptions
from osc_lib.command import command

PATH = "/_scope/sites"
COLUMNS = ("Site", "Reach", "Round Trip", "Services")


class ListSites(command.Lister):
    """List the sites that scopes can name, as the mesh in front of this cloud sees them"""

    def take_action(self, parsed_args):
        manager = self.app.client_manager
        url = sites_url(manager.get_endpoint_for_service_type("identity", manager.region_name))
        answer = manager.session.get(url, authenticated=True, raise_exc=False)
        return COLUMNS, rows(url, answer)


def sites_url(endpoint):
    """Where the mesh says it: at any address of a service, beside what is the service's."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc, PATH, "", ""))


def rows(url, answer):
    try:
        document = answer.json() if answer.status_code == 200 else None
        listed = document["sites"]
    except (ValueError, TypeError, KeyError):
        raise exceptions.CommandError(
            f"no list of sites at {url} (status {answer.status_code}): is there an Archipel in front of this cloud?"
        ) from None
    return [row(site) for site in listed]


def row(site):
    distance = site.get("rtt_ms")
    return (
        site["site"],
        site.get("reach", ""),
        "" if distance is None else f"{distance:.1f} ms",
        ", ".join(site.get("services") or ()),
    )
