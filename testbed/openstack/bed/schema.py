"""The databases. OpenStack's own tools make the tables once; a dump of them then fills those of each site.

Making them takes minutes of processor time for each site, loading a dump a second. The dump is of the installed
packages' versions, and is made again when these change.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor

from . import config, packages
from .backing import account, sql
from .layout import Site, write
from .process import run

DATABASES = ("keystone", "glance", "placement", "nova_api", "nova", "nova_cell0", "neutron")

# Nova fills these in from a site's own configuration, so the same rows serve every site.
CELL0 = "{scheme}://{username}:{password}@{hostname}:{port}/{path}_cell0?{query}"
CELL1 = "{scheme}://{username}:{password}@{hostname}:{port}/{path}?{query}"
BUS = "{scheme}://{username}:{password}@{hostname}:{port}/{path}"


class Template(Site):
    """A site that is never started: the tables are made for it."""

    def __init__(self, bed):
        super().__init__(bed, 0)
        self.name, self.key = "template", "template"
        self.directory = bed.directory / "template"

    def database(self, name):
        # Nobody's but ours, so with our own account.
        return super().database(name).replace("//template:", "//bed:")


def dumps(bed):
    return bed.directory / "schema"


def fingerprint():
    return "".join(f"{name} {version}\n" for name, version in sorted(packages.versions().items()))


def made(bed):
    version = dumps(bed) / "packages"
    return version.exists() and version.read_text() == fingerprint()


def make(bed, say):
    """Makes the dumps, if they are missing or of other packages."""
    if made(bed):
        return False
    template = Template(bed)
    config.write_all(template)
    sql(bed, "".join(f"drop database if exists template_{name}; create database template_{name};" for name in DATABASES))
    # The longest first, two at a time.
    together(bed, template, (make_neutron, make_nova, make_nova_api, make_others))
    say("tables made")
    together(bed, template, (map_cell0, create_cell))
    for name in DATABASES:
        source = "nova" if name == "nova_cell0" else name
        dump = run(bed, ["mariadb-dump", *account(bed), "--skip-comments", f"template_{source}"])
        write(dumps(bed) / f"{name}.sql", dump)
    write(dumps(bed) / "packages", fingerprint())
    sql(bed, "".join(f"drop database template_{name};" for name in DATABASES))
    shutil.rmtree(template.directory)
    return True


def together(bed, template, works):
    """Does two things at a time; the first that failed is the failure."""
    with ThreadPoolExecutor(2) as pool:
        for work in [pool.submit(work, bed, template) for work in works]:
            work.result()


def make_neutron(bed, template):
    run(bed, ["neutron-db-manage", "--config-file", template.directory / "neutron.conf", "upgrade", "heads"])


def make_nova(bed, template):
    run(bed, ["nova-manage", "--config-file", template.directory / "nova.conf", "db", "sync", "--local_cell"])


def make_nova_api(bed, template):
    run(bed, ["nova-manage", "--config-file", template.directory / "nova.conf", "api_db", "sync"])


def make_others(bed, template):
    run(bed, ["glance-manage", "--config-file", template.directory / "glance-api.conf", "db_sync"])
    run(bed, ["keystone-manage", "--config-file", template.directory / "keystone.conf", "db_sync"])
    run(bed, ["placement-manage", "--config-dir", template.directory / "placement", "db", "sync"])


def map_cell0(bed, template):
    nova = ["nova-manage", "--config-file", template.directory / "nova.conf", "cell_v2"]
    run(bed, [*nova, "map_cell0", "--database_connection", CELL0])


def create_cell(bed, template):
    nova = ["nova-manage", "--config-file", template.directory / "nova.conf", "cell_v2"]
    run(bed, [*nova, "create_cell", "--name", "cell1", "--database_connection", CELL1, "--transport-url", BUS])


def fill(site):
    """Empty tables for a site, of the dumps."""
    parts = []
    for name in DATABASES:
        database = f"{site.key}_{name}"
        parts.append(f"drop database if exists {database};\ncreate database {database};\nuse {database};\n")
        parts.append((dumps(site.bed) / f"{name}.sql").read_text())
    sql(site.bed, "".join(parts))
