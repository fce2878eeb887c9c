//! The real binary, as a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::PATIENCE;

/// Between two looks at a process that cannot be waited for with a limit.
const LOOK: Duration = Duration::from_millis(5);

/// One site's files.
pub struct Home {
    directory: TempDir,
}

impl Home {
    /// A directory with the identity of Site1, made by `archipel init`.
    pub fn new() -> Home {
        let home = Home { directory: tempfile::tempdir().unwrap() };
        let made = home.archipel(&["init", "--site", "Site1"]);
        assert!(made.status.success(), "{made:?}");
        home
    }

    /// Another site's directory, with an identity by the same authority.
    pub fn another(&self, site: &str) -> Home {
        let home = Home { directory: tempfile::tempdir().unwrap() };
        home.init(site, &self.path().join("authority"));
        home
    }

    /// Has an identity made, in the place of the one that there may be.
    pub fn init(&self, site: &str, authority: &Path) {
        for file in ["site.pem", "site-key.pem"] {
            let _ = fs::remove_file(self.path().join("identity").join(file));
        }
        let made = self.archipel(&["init", "--site", site, "--authority", authority.to_str().unwrap()]);
        assert!(made.status.success(), "{made:?}");
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self) -> PathBuf {
        self.path().join("archipel.toml")
    }

    pub fn write(&self, configuration: &str) {
        fs::write(self.file(), configuration).unwrap();
    }

    /// Runs a command to its end.
    pub fn archipel(&self, arguments: &[&str]) -> Output {
        let mut command = archipel();
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// `archipel run`, once it says that it is ready.
    pub fn run(&self) -> Running {
        let mut running = self.spawn();
        running.until("is ready");
        running
    }

    /// The same, with so few open files at a time.
    pub fn run_with_files(&self, most: u32) -> Running {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -n {most}; exec \"$0\" run")).arg(archipel().get_program());
        let mut running = self.start(command);
        running.until("is ready");
        running
    }

    /// `archipel run`, which is expected to refuse; what it said.
    pub fn refused(&self) -> String {
        let mut running = self.spawn();
        let status = running.exit();
        assert!(!status.success(), "it stopped with success");
        let said = running.rest();
        assert!(!said.contains("is ready"), "{said}");
        said
    }

    fn spawn(&self) -> Running {
        let mut command = archipel();
        command.arg("run");
        self.start(command)
    }

    fn start(&self, mut command: Command) -> Running {
        command.current_dir(self.path()).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, lines, said: Vec::new() }
    }
}

fn archipel() -> Command {
    Command::new(env!("CARGO_BIN_EXE_archipel"))
}

/// A process that runs; it is killed if the test ends before it.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    /// Reads what it says until a line has this, unless one had it already.
    pub fn has_said(&mut self, text: &str) {
        if !self.said.iter().any(|line| line.contains(text)) {
            self.until(text);
        }
    }

    /// Reads what it says until a line has this; that line.
    pub fn until(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("it never said `{text}`, but:\n{}", self.said.join("\n"));
            };
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Where a service listens, as it said when it started.
    pub fn address(&self, service: &str, kind: &str) -> SocketAddr {
        let wanted = |line: &&String| {
            line.contains(&format!(" {service} listens at ")) && line.ends_with(&format!("({kind})"))
        };
        let line =
            self.said.iter().find(wanted).unwrap_or_else(|| panic!("{service} is not in {:?}", self.said));
        line.split(' ').rev().nth(1).unwrap().parse().unwrap()
    }

    /// Where it listens for other sites.
    pub fn link_address(&self) -> SocketAddr {
        let address = self.said.iter().find_map(|line| line.split_once("the link listens at "));
        address.unwrap_or_else(|| panic!("there is no link in {:?}", self.said)).1.parse().unwrap()
    }

    /// Sends a signal: the shell's `kill` does, so that no test needs unsafe code.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// How much of files, its own code among them, it has in memory: KiB.
    pub fn resident_of_files(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits for its end.
    pub fn exit(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(LOOK);
        }
        panic!("it does not end; it said:\n{}", self.rest());
    }

    /// It does not end by itself: looked at for long enough that one which would has.
    pub fn goes_on(&mut self) {
        for _ in 0..40 {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended; it said:\n{}", self.rest());
            std::thread::sleep(LOOK);
        }
    }

    /// All that it said, once it has ended or nothing more is expected.
    pub fn rest(&mut self) -> String {
        let ended = self.child.try_wait().unwrap().is_some();
        while let Ok(line) = self.lines.recv_timeout(if ended { PATIENCE } else { LOOK }) {
            self.said.push(line);
        }
        self.said.join("\n")
    }

    /// What it printed, once it has ended.
    pub fn printed(&mut self) -> String {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
