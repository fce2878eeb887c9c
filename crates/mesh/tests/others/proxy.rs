//! Other proxies in front of a service, as they come, but for what decides when a connection ends.

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
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Haproxy, Kind::Nginx];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
        }
    }

    pub fn is_installed(self) -> bool {
        let asked = self.command().arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    }

    /// Debian has both where only administrators look.
    fn command(self) -> Command {
        let usual = Path::new("/usr/sbin").join(self.name());
        Command::new(if usual.exists() { usual } else { PathBuf::from(self.name()) })
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
        std::fs::write(&settings, kind.settings(directory.path(), service)).unwrap();
        let mut command = kind.command();
        match kind {
            Kind::Haproxy => command.arg("-db").arg("-f").arg(&settings),
            Kind::Nginx => {
                command.arg("-p").arg(directory.path()).arg("-e").arg("log").arg("-c").arg(&settings)
            }
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It takes no port 0, so that it listens in a directory of its own.
        let socket = directory.path().join("socket");
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
