"""The proxies that are compared, each with one thread, and the backend behind all of them."""

from dataclasses import dataclass

from rig import ARCHIPEL

# Resolves to the site itself: the same forwarding as the others do, after reading, planning and minting a key.
SCOPE = "image: here"

SMALL = (
    '{"servers":[{"id":"3f0d2f4e-7d0f-4f0e-9a8e-2e5f7a1c9b10","name":"vm-1","status":"ACTIVE"},'
    '{"id":"9b1d7a3c-11ce-4a55-8a7a-0d3b1d6a2f77","name":"vm-2","status":"ACTIVE"}],"links":[]}'
)
MIB = 1 << 20

NGINX = """
daemon off; master_process off; worker_processes 1; user root; pid {dir}/{name}.pid; error_log {dir}/{name}.err;
events {{ worker_connections 8192; }}
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
    listen 127.0.0.1:{port} backlog=4096; root {dir}/files;
    location = /small {{ return 200 '{small}'; }}
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
  maxconn 4000
  {lua_load}
defaults
  mode http
  http-reuse always
  option http-keep-alive
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-request 30s
frontend clients
  bind 127.0.0.1:{port}
  {choice}
backend image_here
  server s 127.0.0.1:{backend} pool-max-conn -1 pool-purge-delay 300s
backend image_Site2
  server s 127.0.0.1:{backend} pool-max-conn -1 pool-purge-delay 300s
"""

# The least that reads the scope and follows it: no operators, no errors, no record of the request. As
# Archipel does, it gives the request an identity, which the calls that it causes can be known by.
LUA_CHOICE = """http-request lua.scope
  http-request set-header traceparent 00-%[uuid()]-%[rand(2147483647),hex]-01
  use_backend %[var(txn.backend)]"""

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

ARCHIPEL_TOML = """
site = "Site1"
profile = "rest"
state = "{name}-state"
threads = 1
[services.image]
public = ["127.0.0.1:{port}"]
upstreams = ["http://127.0.0.1:{backend}"]
[http]
thin = {thin}
"""


@dataclass
class Proxy:
    """One proxy: how it is started, where it listens, and the header that its requests have."""

    name: str
    command: list
    port: int
    scoped: bool = False

    @property
    def headers(self):
        headers = {"User-Agent": "bench", "Accept": "*/*"}
        return headers | {"X-Scope": SCOPE} if self.scoped else headers


def backend(rig, port):
    rig.write("files/mib", "x" * MIB)
    rest = BACKEND.format(port=port, dir=rig.dir, small=SMALL)
    return ["nginx", "-c", rig.write("backend.conf", NGINX.format(dir=rig.dir, name="backend", rest=rest))]


def nginx(rig, name, port, backend):
    rest = NGINX_PROXY.format(port=port, backend=backend)
    config = rig.write(f"{name}.conf", NGINX.format(dir=rig.dir, name=name, rest=rest))
    return Proxy(name, ["nginx", "-c", config], port)


def haproxy(rig, name, port, backend):
    text = HAPROXY.format(port=port, backend=backend, lua_load="", choice="default_backend image_here")
    return Proxy(name, ["haproxy", "-q", "-db", "-f", rig.write(f"{name}.cfg", text)], port)


def haproxy_lua(rig, name, port, backend):
    load = f"lua-load {rig.write('scope.lua', LUA)}"
    text = HAPROXY.format(port=port, backend=backend, lua_load=load, choice=LUA_CHOICE)
    return Proxy(name, ["haproxy", "-q", "-db", "-f", rig.write(f"{name}.cfg", text)], port, scoped=True)


def archipel(rig, name, port, backend, scoped, thin=False, program=ARCHIPEL):
    text = ARCHIPEL_TOML.format(name=name, port=port, backend=backend, thin=str(thin).lower())
    config = rig.write(f"{name}.toml", text)
    return Proxy(name, [program, "run", config], port, scoped)
