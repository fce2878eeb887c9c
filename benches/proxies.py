"""The proxies that are compared, each with one thread, and the backend behind all of them."""

from dataclasses import dataclass

from rig import ARCHIPEL, ROOT

# Resolves to the site itself: the same forwarding as the others do, after reading, planning and minting a key. What other
# services get is not asked for; to read it takes time all the same.
SCOPE = "*: Site2 | Site3, image: here"
JSON_SCOPE = '{"*":"Site2 | Site3","image":"here"}'

SMALL = (
    '{"servers":[{"id":"3f0d2f4e-7d0f-4f0e-9a8e-2e5f7a1c9b10","name":"vm-1","status":"ACTIVE"},'
    '{"id":"9b1d7a3c-11ce-4a55-8a7a-0d3b1d6a2f77","name":"vm-2","status":"ACTIVE"}],"links":[]}'
)
FILES = {"mib": 1 << 20, "64k": 64 << 10}
# Connections that a proxy may have, with as many idle as are measured.
MOST_CONNECTIONS = 12_000

NGINX = """
daemon off; master_process off; worker_processes 1; user root; pid {dir}/{name}.pid; error_log {dir}/{name}.err;
events {{ worker_connections 16000; }}
http {{
  access_log off; server_tokens off; tcp_nodelay on; sendfile on; default_type application/json;
  keepalive_requests 100000000; keepalive_timeout 300s;
  client_body_temp_path {dir}/{name}-body; proxy_temp_path {dir}/{name}-proxy;
  fastcgi_temp_path {dir}/{name}-f; uwsgi_temp_path {dir}/{name}-u; scgi_temp_path {dir}/{name}-s;
  {rest}
}}
"""

BACKEND = """
  open_file_cache max=10 inactive=600s; open_file_cache_valid 600s;
  server {{
    listen {host}:{port} backlog=4096; root {dir}/files;
    location = /small {{ return 200 '{small}'; }}
    {more}
  }}
"""

NGINX_PROXY = """
  upstream service {{ server 127.0.0.1:{backend}; keepalive 512; keepalive_requests 100000000; keepalive_timeout 300s; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://service; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_buffers 16 16k; proxy_buffer_size 16k; proxy_max_temp_file_size 0; proxy_request_buffering off;
    }}
  }}
"""

HAPROXY = """
global
  nbthread 1
  no strict-limits
  maxconn {most}
  {load}
defaults
  mode http
  http-reuse always
  option http-keep-alive
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-request 30s
  maxconn {most}
frontend clients
  bind 127.0.0.1:{port}
  {choice}
backend image_here
  server s 127.0.0.1:{backend} {how} pool-max-conn -1 pool-purge-delay 300s
backend image_Site2
  server s 127.0.0.1:{backend} pool-max-conn -1 pool-purge-delay 300s
"""

# The least that reads the scope and follows it: no operators, no errors, no record of the request. As
# Archipel does, it gives the request an identity, which the calls that it causes can be known by.
LUA_CHOICE = """http-request lua.scope
  http-request set-header traceparent 00-%[uuid()]-%[rand(2147483647),hex]-01
  use_backend %[var(txn.backend)]"""

# The same with what HAProxy has built in: the scope is a JSON object, and a map says which backend a location is.
MAP_CHOICE = """http-request set-var(txn.location) req.fhdr(x-scope),json_query('$.image')
  http-request set-header traceparent 00-%[uuid()]-%[rand(2147483647),hex]-01
  use_backend %[var(txn.location),map({map},image_here)]"""

LUA = """
core.register_action("scope", {"http-req"}, function(txn)
  local chosen = "image_here"
  local text = txn.sf:req_fhdr("x-scope")
  if text and text ~= "" then
    for service, location in string.gmatch(text, "([%w_.-]+)%s*:%s*([%w_.-]+)") do
      if service == "image" then chosen = "image_" .. location end
    end
  end
  txn:set_var("txn.backend", chosen)
end)
"""

# What the experiment that set the aim had: every binding is read, each with its sites and its operator, and the first site
# taken.
LUA_OPERATORS = """
core.register_action("scope", {"http-req"}, function(txn)
  local chosen = "image_here"
  local text = txn.sf:req_fhdr("x-scope")
  if text and text ~= "" then
    local scope = {}
    for service, location in string.gmatch(text, "([%w_.*-]+)%s*:%s*([^,]+)") do
      local sites = { operator = string.match(location, "[&|;^]") }
      for site in string.gmatch(location, "[%w_.-]+") do sites[#sites + 1] = site end
      scope[service] = sites
    end
    if scope.image then chosen = "image_" .. scope.image[1] end
  end
  txn:set_var("txn.backend", chosen)
end)
"""

ARCHIPEL_TOML = """
site = "Site1"
profile = "rest"
state = "{name}-state"
threads = {threads}
[services.image]
public = ["127.0.0.1:{port}"]
upstreams = ["http://127.0.0.1:{backend}"]
[http]
thin = {thin}
[limits]
connections = {most}
"""

CADDY = """{{
  admin off
  auto_https off
  log {{
    level ERROR
  }}
}}
http://127.0.0.1:{port} {{
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:{backend} {{
    transport http {{
      keepalive 300s
      keepalive_idle_conns 1024
      keepalive_idle_conns_per_host 1024
      compression off
    }}
  }}
}}
"""

ENVOY_PROGRAM = ROOT / "target/envoy-venv"
ENVOY = """
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: {most}
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: clients
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: "/" }}
                route: {{ cluster: image, timeout: 300s }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: image
    circuit_breakers: {{ thresholds: [{{ max_connections: 4096, max_requests: 4096, max_pending_requests: 4096 }}] }}
    load_assignment:
      cluster_name: image
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {backend} }} }} }}
"""


@dataclass
class Proxy:
    """One proxy: how it is started, where it listens, and the scope that its requests have."""

    name: str
    command: list
    port: int
    scope: str = ""
    threads: int = 1

    @property
    def headers(self):
        headers = {"User-Agent": "bench", "Accept": "*/*"}
        return headers | {"X-Scope": self.scope} if self.scope else headers


def backend(rig, port, host="127.0.0.1", name="backend", more=""):
    for name, length in FILES.items():
        rig.write(f"files/{name}", "x" * length)
    rest = BACKEND.format(host=host, port=port, dir=rig.dir, small=SMALL, more=more)
    return ["nginx", "-c", rig.write(f"{name}.conf", NGINX.format(dir=rig.dir, name=name, rest=rest))]


def nginx(rig, name, port, backend):
    rest = NGINX_PROXY.format(port=port, backend=backend)
    config = rig.write(f"{name}.conf", NGINX.format(dir=rig.dir, name=name, rest=rest))
    return Proxy(name, ["nginx", "-c", config], port)


def haproxy(rig, name, port, backend, load="", choice="default_backend image_here", scope="", how=""):
    text = HAPROXY.format(port=port, backend=backend, load=load, choice=choice, most=MOST_CONNECTIONS, how=how)
    return Proxy(name, ["haproxy", "-q", "-db", "-f", rig.write(f"{name}.cfg", text)], port, scope)


def haproxy_lua(rig, name, port, backend, reader):
    load = f"lua-load {rig.write(f'{port}.lua', reader)}"
    return haproxy(rig, name, port, backend, load, LUA_CHOICE, SCOPE)


def haproxy_map(rig, name, port, backend):
    choice = MAP_CHOICE.format(map=rig.write("locations.map", "here image_here\nSite2 image_Site2\n"))
    return haproxy(rig, name, port, backend, "", choice, JSON_SCOPE)


def caddy(rig, name, port, backend):
    config = rig.write("Caddyfile", CADDY.format(port=port, backend=backend))
    own = ["env", "GOMAXPROCS=1", f"HOME={rig.dir}", f"XDG_DATA_HOME={rig.dir}", f"XDG_CONFIG_HOME={rig.dir}"]
    return Proxy(name, [*own, "caddy", "run", "--config", config, "--adapter", "caddyfile"], port)


def envoy(rig, name, port, backend):
    program = next(ENVOY_PROGRAM.glob("lib/python3*/site-packages/envoy/_bin/envoy"))
    config = rig.write("envoy.yaml", ENVOY.format(port=port, backend=backend, most=MOST_CONNECTIONS))
    return Proxy(name, [program, "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "error"], port)


def archipel(rig, name, port, backend, scoped, thin=False, threads=1, program=ARCHIPEL):
    text = ARCHIPEL_TOML.format(name=name, port=port, backend=backend, thin=str(thin).lower(), threads=threads,
                                most=MOST_CONNECTIONS)
    config = rig.write(f"{name}.toml", text)
    return Proxy(name, [program, "run", config], port, SCOPE if scoped else "", threads)


def everyone(rig, backend, ports):
    """All that are compared."""
    ports = iter(ports)
    return [
        haproxy(rig, "HAProxy", next(ports), backend),
        haproxy(rig, "HAProxy again", next(ports), backend),
        haproxy_lua(rig, "HAProxy with Lua", next(ports), backend, LUA_OPERATORS),
        haproxy_lua(rig, "HAProxy with less Lua", next(ports), backend, LUA),
        haproxy_map(rig, "HAProxy with json_query", next(ports), backend),
        nginx(rig, "nginx", next(ports), backend),
        caddy(rig, "Caddy", next(ports), backend),
        envoy(rig, "Envoy", next(ports), backend),
        archipel(rig, "unscoped", next(ports), backend, scoped=False),
        archipel(rig, "scoped", next(ports), backend, scoped=True),
        archipel(rig, "thin unscoped", next(ports), backend, scoped=False, thin=True),
        archipel(rig, "thin scoped", next(ports), backend, scoped=True, thin=True),
    ]
