//! Other readers of HTTP in front of a service, as they come, but for what decides when a connection ends: proxies, and
//! servers of applications, whose application here sends on what it was given.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{ANY_PORT, until};

#[derive(Clone, Copy)]
pub enum Kind {
    Haproxy,
    Nginx,
    Node,
    Uwsgi,
}

/// For node, with its socket and the port of the service. Requests in a row go on in a row.
const NODE: &str = r"
const http = require('http');
const [socket, port] = process.argv.slice(2);
let turn = Promise.resolve();
const forward = (method, path, body) => new Promise(done => {
  const headers = { 'content-length': body.length };
  try {
    const on = http.request({ host: '127.0.0.1', port, method, path, headers }, heard => {
      heard.resume();
      heard.on('end', () => done(200));
    });
    on.on('error', () => done(502));
    on.end(body);
  } catch (_) { done(502); }
});
http.createServer((asked, answer) => {
  const parts = [];
  asked.on('data', part => parts.push(part));
  asked.on('end', () => {
    turn = turn.then(() => forward(asked.method, asked.url, Buffer.concat(parts)))
      .then(status => { answer.writeHead(status, { 'content-length': 0 }); answer.end(); });
  });
}).listen(socket);
";

/// For uwsgi.
const PYTHON: &str = r"
import http.client, os, uwsgi

def application(asked, answer):
    body = asked['wsgi.input'].read()
    if 'chunked' in asked.get('HTTP_TRANSFER_ENCODING', '').lower():
        while part := uwsgi.chunked_read():
            body += part
    status = '200 OK'
    try:
        on = http.client.HTTPConnection('127.0.0.1', int(os.environ['SERVICE_PORT']), timeout=10)
        on.request(asked['REQUEST_METHOD'], asked['REQUEST_URI'], body, {'Content-Length': str(len(body))})
        on.getresponse().read()
    except Exception:
        status = '502 Bad Gateway'
    # It closes after each answer, and does not say so by itself.
    answer(status, [('Content-Length', '0'), ('Connection', 'close')])
    return [b'']
";

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Haproxy, Kind::Nginx, Kind::Node, Kind::Uwsgi];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
            Kind::Node => "node",
            Kind::Uwsgi => "uwsgi",
        }
    }

    pub fn is_installed(self) -> bool {
        let version = if matches!(self, Kind::Uwsgi) { "--version" } else { "-v" };
        let asked = self.command().arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    }

    /// Debian has both where only administrators look.
    fn command(self) -> Command {
        let name = if matches!(self, Kind::Uwsgi) { "uwsgi_python3" } else { self.name() };
        let usual = Path::new("/usr/sbin").join(name);
        Command::new(if usual.exists() { usual } else { PathBuf::from(name) })
    }

    /// Bodies go on as they come, as in a mesh.
    fn settings(self, directory: &Path, service: SocketAddr) -> String {
        let dir = directory.display();
        match self {
            Kind::Haproxy => format!(
                "defaults\n mode http\n timeout connect 10s\n timeout client 10s\n timeout server 10s\n\
                 frontend in\n bind unix@{dir}/socket\n default_backend out\n\
                 backend out\n server service {service}\n"
            ),
            // A client may close its side once it has sent its request.
            Kind::Nginx => format!(
                "daemon off;\nmaster_process off;\npid {dir}/pid;\nerror_log {dir}/log;\nevents {{}}\n\
                 http {{\n access_log off;\n client_body_temp_path {dir}/body;\n proxy_temp_path {dir}/proxy;\n\
                 fastcgi_temp_path {dir}/f;\n uwsgi_temp_path {dir}/u;\n scgi_temp_path {dir}/s;\n\
                 server {{\n listen unix:{dir}/socket;\n location / {{\n proxy_pass http://{service};\n\
                 proxy_http_version 1.1;\n proxy_request_buffering off;\n proxy_ignore_client_abort on;\n\
                 }}\n}}\n}}\n"
            ),
            Kind::Node => NODE.to_owned(),
            Kind::Uwsgi => PYTHON.to_owned(),
        }
    }
}

/// A proxy. It ends with the test.
pub struct Proxy {
    kind: Kind,
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Proxy {
    pub fn start(kind: Kind, service: SocketAddr) -> Proxy {
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("settings");
        let socket = directory.path().join("socket");
        std::fs::write(&settings, kind.settings(directory.path(), service)).unwrap();
        let mut command = kind.command();
        match kind {
            Kind::Haproxy => command.arg("-db").arg("-f").arg(&settings),
            Kind::Nginx => {
                command.arg("-p").arg(directory.path()).arg("-e").arg("log").arg("-c").arg(&settings)
            }
            Kind::Node => command.arg(&settings).arg(&socket).arg(service.port().to_string()),
            Kind::Uwsgi => command
                .env("SERVICE_PORT", service.port().to_string())
                .arg("--wsgi-file")
                .arg(&settings)
                .arg("--http-socket")
                .arg(&socket),
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It takes no port 0, so that it listens in a directory of its own.
        until("the proxy listens", || UnixStream::connect(&socket).is_ok());
        Proxy { kind, child, address: door(socket), _directory: directory }
    }

    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address for who can only connect to those: bytes go both ways untouched, and so do their ends.
fn door(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind(ANY_PORT).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for outside in listener.incoming().flatten() {
            let Ok(inside) = UnixStream::connect(&socket) else { return };
            let _ = outside.set_nodelay(true);
            let (from, to) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
            std::thread::spawn(move || {
                copy(from, &to);
                let _ = to.shutdown(Shutdown::Write);
            });
            std::thread::spawn(move || {
                copy(inside, &outside);
                let _ = outside.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}
