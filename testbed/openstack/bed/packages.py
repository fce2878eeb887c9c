"""The Debian packages that a testbed is made of."""

import subprocess

# Without nova-compute, which pulls in libvirt: its program is in python3-nova.
PACKAGES = (
    "keystone glance-api placement-api nova-api nova-conductor nova-scheduler nova-consoleproxy neutron-server "
    "python3-openstackclient mariadb-server rabbitmq-server uwsgi-core uwsgi-plugin-python3 python3-pymysql python3-memcache"
).split()
# Each asks at its installation whether to make a database or to register itself; both are done here, for each site.
QUESTIONS = ("configure_db", "register-endpoint")
ASKING = (
    "keystone glance-common glance-api placement-common placement-api nova-common nova-api neutron-common neutron-server"
).split()


def versions():
    """The installed ones, with their versions."""
    command = ["dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Status}\n", *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    lines = (line.split() for line in done.stdout.splitlines())
    return {fields[0]: fields[1] for fields in lines if fields[-1] == "installed"}


def missing():
    installed = versions()
    return [name for name in PACKAGES if name not in installed]
