"""The configuration files of one site's services.

Services find each other in the catalog, as they would in production: no `endpoint_override` anywhere. Only where
Keystone is has to be said to each of them, since the catalog is there.
"""

from .layout import CONSOLE, HOST, INTERNAL, PASSWORD, PUBLIC, REGION, UPSTREAM, write

# Services behind a proxy that says so make links with the address that clients used.
BEHIND_PROXY = {"oslo_middleware": {"enable_proxy_headers_parsing": "true"}}
# Seconds that services may take to end.
ENDING = {"graceful_shutdown_timeout": 5}


def render(sections):
    """The text of a configuration file, of its sections."""
    lines = []
    for name, options in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{option} = {value}" for option, value in options.items()]
        lines.append("")
    return "\n".join(lines)


def side(site, mesh):
    return UPSTREAM if site.bed.mode == "direct" else mesh


def login(site, user, **more):
    """How a service logs in: at the internal address, where Archipel can learn whose token it got."""
    return {
        "auth_type": "password",
        "auth_url": site.url("identity", side(site, INTERNAL)) + "/v3",
        "username": user,
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_id": "default",
        "project_domain_id": "default",
        "region_name": REGION,
        **more,
    }


def validation(site, user):
    """How a service has its clients' tokens validated."""
    return {
        "keystone_authtoken": login(
            site,
            user,
            www_authenticate_uri=site.url("identity", side(site, PUBLIC)) + "/v3",
            service_token_roles="service",
            service_token_roles_required="true",
        )
    }


def database(site, name):
    return {"connection": site.database(name), "max_pool_size": 5}


def locks(site):
    return {"oslo_concurrency": {"lock_path": site.directory / "lock"}}


def keystone(site):
    return {
        "DEFAULT": {"log_options": "false"},
        "database": database(site, "keystone"),
        "token": {"provider": "fernet", "expiration": 14400},
        "fernet_tokens": {"key_repository": site.directory / "fernet-keys"},
        "fernet_receipts": {"key_repository": site.directory / "fernet-keys"},
        "credential": {"key_repository": site.directory / "credential-keys"},
        # Passwords of a testbed need not be slow to check.
        "identity": {"password_hash_rounds": 4},
        # In its own memory: it is one process. Without, each request reads a dozen tables. Pickled, as elsewhere: Keystone changes what it is given.
        "cache": {"enabled": "true", "backend": "dogpile.cache.memory_pickle"},
        **BEHIND_PROXY,
    }


def glance(site):
    return {
        "DEFAULT": {
            "bind_host": HOST,
            "bind_port": site.port("image"),
            # No worker processes: one process serves, and less memory is used. The same for the others below.
            "workers": 0,
            **ENDING,
            "node_staging_uri": f"file://{site.directory / 'glance' / 'staging'}",
        },
        "database": database(site, "glance"),
        "glance_store": {
            "stores": "file",
            "default_store": "file",
            "filesystem_store_datadir": site.directory / "glance" / "images",
        },
        "paste_deploy": {"flavor": "keystone", "config_file": "/etc/glance/glance-api-paste.ini"},
        **locks(site),
        **BEHIND_PROXY,
        **validation(site, "glance"),
    }


def placement(site):
    return {
        "DEFAULT": {},
        "placement_database": database(site, "placement"),
        "api": {"auth_strategy": "keystone"},
        **BEHIND_PROXY,
        **validation(site, "placement"),
    }


def nova(site):
    return {
        "DEFAULT": {
            "transport_url": site.broker,
            "enabled_apis": "osapi_compute",
            "osapi_compute_listen": HOST,
            "osapi_compute_listen_port": site.port("compute"),
            "osapi_compute_workers": 1,
            **ENDING,
            "state_path": site.directory / "nova",
            "instances_path": site.disks,
            "my_ip": HOST,
            "host": f"compute-{site.key}",
            "compute_driver": "fetching.FetchingDriver",
        },
        "api": {"auth_strategy": "keystone"},
        # Who only reads may not boot: by Zed's default any role does.
        "oslo_policy": {"enforce_new_defaults": "true"},
        "wsgi": {"api_paste_config": "/etc/nova/api-paste.ini"},
        "api_database": database(site, "nova_api"),
        "database": database(site, "nova"),
        "conductor": {"workers": 1},
        # A new compute host is found within seconds, without calling a tool.
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 5},
        "filter_scheduler": {"track_instance_changes": "false"},
        "vnc": {
            "enabled": "true",
            "novncproxy_host": HOST,
            "novncproxy_port": site.port(CONSOLE),
            "novncproxy_base_url": site.url(CONSOLE, side(site, PUBLIC)) + "/vnc_lite.html",
        },
        "spice": {"enabled": "false"},
        # The disks are a mebibyte, and the servers nothing: there is room for many.
        "quota": {"instances": 1000, "cores": 1000, "ram": 1 << 20},
        "oslo_messaging_notifications": {"driver": "noop"},
        # A call is made once, so that what a test sees is what happened.
        "glance": {"region_name": REGION, "num_retries": 0},
        "placement": login(site, "placement"),
        "neutron": login(site, "neutron", service_metadata_proxy="false"),
        "service_user": login(site, "nova", send_service_user_token="true"),
        **locks(site),
        **BEHIND_PROXY,
        **validation(site, "nova"),
    }


def neutron(site):
    return {
        "DEFAULT": {
            "transport_url": site.broker,
            "bind_host": HOST,
            "bind_port": site.port("network"),
            "api_workers": 0,
            "rpc_workers": 0,
            "rpc_state_report_workers": 0,
            **ENDING,
            "core_plugin": "ml2",
            "service_plugins": "",
            "auth_strategy": "keystone",
            "api_paste_config": "/etc/neutron/api-paste.ini",
            "state_path": site.directory / "neutron",
            # The driver of compute waits for no events, and there are no agents.
            "notify_nova_on_port_status_changes": "false",
            "notify_nova_on_port_data_changes": "false",
            "dhcp_agent_notification": "false",
        },
        "ml2": {
            "type_drivers": "local",
            "tenant_network_types": "local",
            "mechanism_drivers": "binding",
            "extension_drivers": "port_security",
        },
        "securitygroup": {"firewall_driver": "noop"},
        "database": database(site, "neutron"),
        "placement": login(site, "placement"),
        **locks(site),
        **BEHIND_PROXY,
        **validation(site, "neutron"),
    }


def write_all(site):
    """Writes every file, and makes the directories that they name."""
    for directory in ("glance/images", "glance/staging", "nova/instances", "neutron", "lock"):
        (site.directory / directory).mkdir(parents=True, exist_ok=True)
    files = {
        "keystone.conf": keystone,
        "glance-api.conf": glance,
        "placement/placement.conf": placement,
        "nova.conf": nova,
        "neutron.conf": neutron,
    }
    for name, make in files.items():
        # They have passwords in them.
        write(site.directory / name, render(make(site)), 0o600)
