//! Network namespaces: one for each site, one for the harness, joined by a bridge; and packets that are dropped between
//! them.
//!
//! All of it is within a network, mount and process namespace of the harness's own: when the harness ends, however it
//! ends, the system ends every process in it, and the networks with them.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

/// Sites of a round.
pub(crate) const SITES: usize = 3;

/// The options of `unshare` for the harness's own namespaces.
const OWN: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Runs this program again with the same arguments and one more, within namespaces of its own. If this process ends, that
/// one is killed.
pub(crate) fn enter(more: &str) -> io::Result<ExitCode> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]).args(OWN).arg(std::env::current_exe()?);
    let status = command.args(std::env::args_os().skip(1)).arg(more).stdin(Stdio::null()).status()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// The address of a site, and of its mesh and service.
pub(crate) fn address(site: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(site + 1).unwrap_or(u8::MAX))
}

/// Where clients reach a site's mesh.
pub(crate) fn mesh(site: usize) -> SocketAddr {
    SocketAddr::new(address(site).into(), 80)
}

/// Where a site's mesh, and the harness, reach its service.
pub(crate) fn service(site: usize) -> SocketAddr {
    SocketAddr::new(address(site).into(), 8080)
}

/// The networks of a run.
pub(crate) struct Networks {
    /// A process in each site's namespace, which keeps it.
    holders: Vec<Child>,
}

impl Networks {
    /// Makes the bridge, and a namespace for each site.
    pub(crate) fn make() -> io::Result<Networks> {
        run("ip", &["link", "set", "lo", "up"])?;
        run("ip", &["link", "add", "bridge0", "type", "bridge"])?;
        run("ip", &["addr", "add", "10.77.0.254/24", "dev", "bridge0"])?;
        run("ip", &["link", "set", "bridge0", "up"])?;
        let mut networks = Networks { holders: Vec::new() };
        for site in 0..SITES {
            networks.add(site)?;
        }
        Ok(networks)
    }

    fn add(&mut self, site: usize) -> io::Result<()> {
        // It says so once it is in a namespace of its own, and then waits for the end of its input, which never comes.
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo; exec cat"]);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut ready = [0];
        if let Some(stdout) = &mut holder.stdout {
            io::Read::read_exact(stdout, &mut ready)?;
        }
        let pid = holder.id().to_string();
        self.holders.push(holder);
        let (port, own) = (format!("site{}", site + 1), format!("{}/24", address(site)));
        run("ip", &["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        run("ip", &["link", "set", &port, "master", "bridge0", "up"])?;
        let inside = [
            "ip link set lo up",
            &format!("ip addr add {own} dev eth0"),
            "ip link set eth0 up",
            "nft add table ip cuts",
            "nft add set ip cuts from '{ type ipv4_addr; }'",
            "nft add chain ip cuts input '{ type filter hook input priority 0; }'",
            "nft add rule ip cuts input ip saddr @from drop",
        ];
        self.run_inside(site, &inside.join(" && "))
    }

    /// A command that starts a program in a site's namespace.
    pub(crate) fn inside(&self, site: usize, program: &PathBuf) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.holders.get(site).map_or(0, Child::id);
        command.arg(format!("--net=/proc/{pid}/ns/net")).arg(program);
        command
    }

    fn run_inside(&self, site: usize, script: &str) -> io::Result<()> {
        let mut command = self.inside(site, &PathBuf::from("sh"));
        finish(command.args(["-c", script]))
    }

    /// Drops exactly what goes from the first to the second site of each of these pairs.
    pub(crate) fn cut(&self, pairs: &BTreeSet<(usize, usize)>) -> io::Result<()> {
        for to in 0..SITES {
            let from = pairs.iter().filter(|(_, cut)| *cut == to).map(|(from, _)| address(*from).to_string());
            let from: Vec<String> = from.collect();
            let mut script = "flush set ip cuts from".to_owned();
            if !from.is_empty() {
                script.push_str(&format!("; add element ip cuts from {{ {} }}", from.join(", ")));
            }
            self.run_inside(to, &format!("nft '{script}'"))?;
        }
        Ok(())
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    finish(Command::new(program).args(arguments))
}

fn finish(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", why.trim())))
}
