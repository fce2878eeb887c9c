"""What the sites' services keep their state in: MariaDB and RabbitMQ.

One process of each serves all sites. Each site has databases and a virtual host of its own, with a user who may
use no others, so the sites share nothing that a service could see; three brokers and three database servers would
cost half a minute at each start, and most of a gigabyte.
"""

import base64
import hashlib
import json
import os
import socket

from .layout import BROKER, BROKER_NAMES, BROKER_PEERS, DATABASE, HOST, PASSWORD, write
from .process import Process, run

BROKER_PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"
# Ended after everything else, in this order.
NAMES = ("mariadb", "rabbitmq", "epmd")


def start(bed):
    """Starts both; they get ready while other things are done."""
    start_database(bed)
    start_broker(bed)


def start_database(bed):
    data = bed.directory / "mariadb"
    if not (data / "mysql").is_dir():
        # As root, the server has to be told that it may be root.
        command = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"]
        run(bed, [*command, "--auth-root-authentication-method=normal"])
    users = data / "users.sql"
    # The file is read by the server at each start; each statement is a line.
    lines = [f"create user if not exists 'bed'@'{HOST}' identified by '{PASSWORD}'", f"grant all on *.* to 'bed'@'{HOST}'"]
    for site in bed.sites:
        lines.append(f"create user if not exists '{site.key}'@'{HOST}' identified by '{PASSWORD}'")
        lines.append(f"grant all on `{site.key}\\_%`.* to '{site.key}'@'{HOST}'")
    write(users, "".join(f"{line};\n" for line in lines))
    Process(bed, "mariadb").start([
        "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", "--socket=mariadb.sock", "--pid-file=mariadb.pid",
        f"--bind-address={HOST}", f"--port={bed.port(DATABASE)}", f"--init-file={users}", "--skip-name-resolve", "--skip-log-bin",
        "--max-connections=1000", "--character-set-server=utf8mb3", "--collation-server=utf8mb3_general_ci",
        # Nothing here has to survive a power cut.
        "--debug-no-sync", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync",
        # One file for all tables: making a thousand of them is what takes long.
        "--innodb-file-per-table=0", "--innodb-buffer-pool-size=192M", "--performance-schema=0",
    ])  # fmt: skip


def start_broker(bed):
    home = bed.directory / "rabbitmq"
    definitions, config = home / "definitions.json", home / "rabbitmq.conf"
    write(definitions, json.dumps(broker_definitions(bed)))
    write(config, f"vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 100MB\nload_definitions = {definitions}\n")
    write(home / "plugins", "[].\n")
    names = {"ERL_EPMD_ADDRESS": HOST, "ERL_EPMD_PORT": str(bed.port(BROKER_NAMES))}
    # Erlang would start this one by itself, and leave it behind.
    Process(bed, "epmd").start(["epmd"], **names)
    Process(bed, "rabbitmq").start(
        [BROKER_PROGRAM],
        **names,
        HOME=str(home),
        RABBITMQ_NODENAME=f"bed{bed.base_port}@localhost",
        RABBITMQ_NODE_IP_ADDRESS=HOST,
        RABBITMQ_NODE_PORT=str(bed.port(BROKER)),
        RABBITMQ_DIST_PORT=str(bed.port(BROKER_PEERS)),
        RABBITMQ_MNESIA_BASE=str(home / "mnesia"),
        RABBITMQ_LOG_BASE=str(bed.logs),
        RABBITMQ_CONFIG_FILE=str(config),
        RABBITMQ_ENABLED_PLUGINS_FILE=str(home / "plugins"),
        # One scheduler that sleeps when idle: by default it spins on every core.
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=(
            "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"
        ),
    )


def broker_definitions(bed):
    """Users and virtual hosts, loaded at the start: the broker's own tool takes seconds for each."""
    salt = os.urandom(4)
    digest = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()
    hashing = "rabbit_password_hashing_sha256"
    return {
        "users": [
            {"name": site.key, "password_hash": digest, "hashing_algorithm": hashing, "tags": ""} for site in bed.sites
        ],
        "vhosts": [{"name": site.key} for site in bed.sites],
        "permissions": [
            {"user": site.key, "vhost": site.key, "configure": ".*", "write": ".*", "read": ".*"} for site in bed.sites
        ],
    }


def wait_for_database(bed):
    Process(bed, "mariadb").wait(lambda: listens(bed.port(DATABASE)), "nothing listens at its port")


def wait_for_broker(bed):
    # It listens once the definitions are loaded.
    Process(bed, "rabbitmq").wait(lambda: listens(bed.port(BROKER)), "nothing listens at its port")


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def account(bed):
    """How this testbed's own tools log in."""
    return ["--no-defaults", "--protocol=tcp", f"--host={HOST}", f"--port={bed.port(DATABASE)}", "--user=bed", f"--password={PASSWORD}"]


def sql(bed, text, database=None):
    return run(bed, ["mariadb", *account(bed), *([database] if database else [])], stdin=text)
