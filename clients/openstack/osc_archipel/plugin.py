"""What the `openstack` client asks of a plugin: the option, and a client that nobody uses.

The client has no place for a header that every request carries, nor for looking at answers. Its session is the one
thing that all requests go through, and it is made by `CloudRegion.get_session`: wrapping that method is the only
thing here that the interface does not offer.
"""

import argparse
import os

from openstack.config import cloud_region

from osc_archipel import session

API_NAME = "archipel"
API_VERSION_OPTION = "os_archipel_api_version"
# Empty: there are no commands by version.
DEFAULT_API_VERSION = ""

# How the client's configuration calls the option; `scope` in clouds.yaml is the same.
OPTION = "os_scope"
KEY = "scope"


def make_client(_manager):
    """There is no API to be a client of: every API has scopes."""
    return None


def build_option_parser(parser):
    parser.add_argument(
        "--scope",
        "--os-scope",
        "--scope-ctx",
        dest=OPTION,
        metavar="<scope>",
        type=scope,
        default=os.environ.get("OS_SCOPE") or None,
        help="Where each service is asked, such as 'compute: Site1, image: Site2' (Env: OS_SCOPE)",
    )
    wrap(cloud_region.CloudRegion)
    return parser


def scope(text):
    """A scope as it can stand in a header; what it means is for the mesh to say."""
    if not text.isascii():
        raise argparse.ArgumentTypeError("a scope has only ASCII characters")
    # The client's configuration formats every text in it as Python's `str.format` does.
    return " ".join(text.split()).replace("{", "{{").replace("}", "}}")


def wrap(region):
    """Has every session that is made watched, once."""
    make = region.get_session
    if getattr(make, "watched", False):
        return

    def get_session(self):
        made = make(self)
        session.watch(made, self.config.get(KEY))
        return made

    get_session.watched = True
    region.get_session = get_session
