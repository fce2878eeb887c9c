//! A site: its mesh and its service, real processes in its namespace, and their files.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::client::{self, Call, Outcome};
use crate::document::Document;
use crate::namespace::{self, Networks, SITES};
use crate::service::{self, Execution, MOOD_PATH, Mood};

/// The limit of a service's answer, and of a peer's, in each site's configuration.
pub(crate) const RESPONSE_LIMIT: Duration = Duration::from_secs(4);

/// Longer than a process takes to start on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// Between two looks at a process that starts.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The credential of a site, and of clients, in rounds that have them.
pub(crate) const CREDENTIAL: &str = "Bearer jepsen";

/// A site's name in scopes.
pub(crate) fn name(site: usize) -> String {
    format!("Site{}", site + 1)
}

/// The number of a site, by its name.
pub(crate) fn number(name: &str) -> Option<usize> {
    (0..SITES).find(|site| self::name(*site) == name)
}

/// What the configurations of all sites of a round have in common.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Sites have a credential of their own for the service.
    pub(crate) credentials: bool,
    /// The profile says how to ask the service whether it executed a write.
    pub(crate) probes: bool,
}

/// One site.
pub(crate) struct Site {
    number: usize,
    directory: PathBuf,
    archipel: PathBuf,
    seed: u64,
    mesh: Option<Child>,
    service: Option<Child>,
}

impl Site {
    /// Makes a site's identity and configuration. Nothing runs yet.
    pub(crate) fn make(
        number: usize,
        round: &Path,
        archipel: &Path,
        seed: u64,
        setup: Setup,
    ) -> io::Result<Site> {
        let directory = round.join(name(number).to_lowercase());
        fs::create_dir_all(&directory)?;
        let (archipel, own) = (archipel.to_owned(), name(number));
        let site = Site { number, directory, archipel, seed, mesh: None, service: None };
        let first = round.join(name(0).to_lowercase()).join("authority");
        let mut init = vec!["init", "--site", &own];
        let first = first.to_string_lossy();
        if number > 0 {
            init.extend(["--authority", &first]);
        }
        site.command(&init)?;
        fs::write(site.directory.join("credential"), CREDENTIAL)?;
        fs::write(site.directory.join("archipel.toml"), configuration(number, setup))?;
        Ok(site)
    }

    /// Starts its service, unless it runs, and waits until it listens.
    pub(crate) async fn start_service(&mut self, networks: &Networks) -> io::Result<()> {
        if self.service.is_some() {
            return Ok(());
        }
        let mut command = networks.inside(self.number, &std::env::current_exe()?);
        command.args(["service", "--listen", &namespace::service(self.number).to_string()]);
        command.args(["--seed", &self.seed.to_string(), "--log"]).arg(self.log());
        self.service = Some(self.spawn(&mut command, "service.err")?);
        self.until_listens(namespace::service(self.number)).await
    }

    /// Starts its mesh, unless it runs, and waits until it listens.
    pub(crate) async fn start_mesh(&mut self, networks: &Networks) -> io::Result<()> {
        if self.mesh.is_some() {
            return Ok(());
        }
        let mut command = networks.inside(self.number, &self.archipel);
        self.mesh = Some(self.spawn(command.arg("run"), "mesh.log")?);
        self.until_listens(namespace::mesh(self.number)).await
    }

    fn spawn(&self, command: &mut Command, log: &str) -> io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.directory.join(log))?;
        command.current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
    }

    async fn until_listens(&mut self, at: std::net::SocketAddr) -> io::Result<()> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if TcpStream::connect(at).await.is_ok() {
                return Ok(());
            }
            for child in [&mut self.mesh, &mut self.service].into_iter().flatten() {
                if let Some(status) = child.try_wait()? {
                    let own = name(self.number);
                    return Err(io::Error::other(format!("a process of {own} ended by itself: {status}")));
                }
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(io::Error::other(format!("nothing listens at {at} after {START_LIMIT:?}")))
    }

    /// Ends its mesh by SIGKILL.
    pub(crate) fn kill_mesh(&mut self) -> io::Result<()> {
        end(&mut self.mesh)
    }

    /// Ends its service by SIGKILL.
    pub(crate) fn kill_service(&mut self) -> io::Result<()> {
        end(&mut self.service)
    }

    /// Stops its mesh (SIGSTOP), or lets it go on (SIGCONT).
    pub(crate) fn pause_mesh(&self, on: bool) -> io::Result<()> {
        let Some(mesh) = &self.mesh else { return Ok(()) };
        let signal = if on { "STOP" } else { "CONT" };
        let kill = format!("kill -{signal} {}", mesh.id());
        Command::new("sh").args(["-c", &kill]).status().map(drop)
    }

    /// Copies the state directory of a mesh that does not run.
    pub(crate) fn back_up(&self) -> io::Result<()> {
        copy_directory(&self.directory.join("state"), &self.directory.join("backup"))
    }

    /// Puts that copy back.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let state = self.directory.join("state");
        fs::remove_dir_all(&state)?;
        copy_directory(&self.directory.join("backup"), &state)
    }

    /// Sets the failures of its service.
    pub(crate) async fn set_mood(&self, mood: Mood) -> io::Result<()> {
        let body = serde_json::to_value(mood)?;
        let call = Call { method: "PUT", path: MOOD_PATH.to_owned(), body, ..Call::default() };
        self.ask_service(&call).await.map(drop)
    }

    /// Asks its service, past the mesh.
    pub(crate) async fn ask_service(&self, call: &Call) -> io::Result<Value> {
        match client::send(namespace::service(self.number), call, START_LIMIT).await {
            Outcome::Answered(answer) if answer.status == 200 => Ok(answer.body),
            other => Err(io::Error::other(format!("the service of {}: {other:?}", name(self.number)))),
        }
    }

    /// All documents of its service, by their paths.
    pub(crate) async fn documents(&self) -> io::Result<std::collections::BTreeMap<String, Document>> {
        let mut documents = std::collections::BTreeMap::new();
        for collection in ["registers", "names"] {
            let call = Call { method: "GET", path: format!("/{collection}"), ..Call::default() };
            let list = self.ask_service(&call).await?;
            for item in list.get(collection).and_then(Value::as_array).into_iter().flatten() {
                let document = item.as_object().cloned().unwrap_or_default();
                let id = crate::document::text(&document, "id").to_owned();
                documents.insert(format!("/{collection}/{id}"), document);
            }
        }
        Ok(documents)
    }

    /// Its service's log of executions.
    pub(crate) fn executions(&self) -> io::Result<Vec<Execution>> {
        service::read_log(&self.log())
    }

    fn log(&self) -> PathBuf {
        self.directory.join("executions.jsonl")
    }

    /// Runs a command of the operator's, to its end.
    pub(crate) fn command(&self, arguments: &[&str]) -> io::Result<String> {
        let mut command = Command::new(&self.archipel);
        let output = command.args(arguments).current_dir(&self.directory).stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let why = text(&output.stderr);
        Err(io::Error::other(format!("{}: archipel {}: {why}", name(self.number), arguments.join(" "))))
    }

    /// The document that a command prints.
    pub(crate) fn shown(&self, arguments: &[&str]) -> io::Result<Value> {
        let text = self.command(&[arguments, &["--json"]].concat())?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// A process that ended by itself, if one did.
    pub(crate) fn dead(&mut self) -> io::Result<Option<String>> {
        for (what, child) in [("mesh", &mut self.mesh), ("service", &mut self.service)] {
            if let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                return Ok(Some(format!("the {what} of {} ended by itself: {status}", name(self.number))));
            }
        }
        Ok(None)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.kill_mesh();
        let _ = self.kill_service();
    }
}

fn end(child: &mut Option<Child>) -> io::Result<()> {
    let Some(mut child) = child.take() else { return Ok(()) };
    child.kill()?;
    child.wait().map(drop)
}

fn configuration(number: usize, setup: Setup) -> String {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let seconds = RESPONSE_LIMIT.as_secs();
    let profile = if setup.probes { "registers" } else { "unprobed" };
    let mut text = format!(
        "site = \"{}\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n\
         profile = \"{profile}\"\nprofiles = \"{}\"\n\
         [link]\nlisten = \"{}:7000\"\n\
         [services.register]\npublic = [\"{}\"]\nupstreams = [\"http://{}\"]\n\
         [timeouts]\nconnect = \"1s\"\nresponse = \"{seconds}s\"\npeer_response = \"{seconds}s\"\n",
        name(number),
        profiles.display(),
        namespace::address(number),
        namespace::mesh(number),
        namespace::service(number),
    );
    for peer in (0..SITES).filter(|peer| *peer != number) {
        let address = namespace::address(peer);
        text.push_str(&format!("[peers.{}]\naddress = \"{address}:7000\"\n", name(peer)));
    }
    if setup.credentials {
        text.push_str("[replication.credentials.register]\nAuthorization = \"credential\"\n");
    }
    text
}

/// Copies a directory with all permissions: a mesh refuses keys that others may read.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_directory(&entry.path(), &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
