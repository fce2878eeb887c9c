//! `archipel openstack`: putting Archipel in front of an OpenStack that runs, and taking it away.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use archipel::adopt::{self, Adoption, Options, Side};
use clap::{Args, Subcommand};
use profile::Profile;

use crate::Failure;

#[derive(Subcommand)]
pub(crate) enum OpenstackCommand {
    /// Put Archipel in front of a site's services: write its configuration and the changes of the catalog.
    Adopt(AdoptCommand),
}

impl OpenstackCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        match self {
            OpenstackCommand::Adopt(command) => command.run(),
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel openstack adopt --site Site1 --dry-run    shows what it would write
  archipel openstack adopt --site Site1 --out site1  reads the catalog of the cloud that OS_* or OS_CLOUD name
  openstack endpoint list -f json | archipel openstack adopt --site Site1 --catalog -

Nothing of the cloud is changed by this command. It writes three files: archipel.toml, adopt.sh, which
sends everybody to Archipel by changing the endpoints of the catalog, and release.sh, which undoes that.")]
pub(crate) struct AdoptCommand {
    /// The site's name.
    #[arg(long, value_name = "SITE")]
    site: String,
    /// The directory to write to. No file in it is overwritten.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Print the files, and write none.
    #[arg(long)]
    dry_run: bool,
    /// A file with the catalog, as `openstack endpoint list -f json` prints it; `-` is standard input.
    /// Without it, that command is run.
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// The region, if the catalog has several.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// What is added to a service's port for clients.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    public_offset: u16,
    /// What is added to a service's port for the site's own services.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    internal_offset: u16,
    /// The address that listeners for clients bind; else that of the endpoint, or every address.
    #[arg(long, value_name = "IP")]
    public_bind: Option<IpAddr>,
    /// The same, for the site's own services, and never every address. Clients must not reach it.
    #[arg(long, value_name = "IP")]
    internal_bind: Option<IpAddr>,
    /// The host by which clients reach Archipel, if that is not the one of the endpoint.
    #[arg(long, value_name = "HOST")]
    public_host: Option<String>,
    /// The same, for the site's own services.
    #[arg(long, value_name = "HOST")]
    internal_host: Option<String>,
    /// A certificate for Archipel's listeners, in the place of endpoints that speak TLS.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<String>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<String>,
}

impl AdoptCommand {
    fn run(self) -> Result<String, Failure> {
        if scope::Site::new(&self.site).is_none() {
            return Err(Failure::Usage(format!("`{}` cannot be a site's name", self.site.escape_debug())));
        }
        let profile = Profile::named(PROFILE)
            .ok_or_else(|| Failure::Usage(format!("there is no profile `{PROFILE}`")))?;
        let catalog = catalog(self.catalog.as_deref())?;
        let options = Options {
            site: self.site,
            profile: PROFILE.to_owned(),
            region: self.region,
            public: Side { offset: self.public_offset, bind: self.public_bind, host: self.public_host },
            internal: Side {
                offset: self.internal_offset,
                bind: self.internal_bind,
                host: self.internal_host,
            },
            tls: self.certificate.zip(self.key),
        };
        let adoption = adopt::adopt(&catalog, &profile, &options).map_err(Failure::Usage)?;
        if self.dry_run {
            return Ok(shown(&adoption));
        }
        let mut text = write(&self.out, &adoption).map_err(Failure::Io)?;
        text.push_str(&left(&adoption));
        text.push_str(NEXT);
        Ok(text)
    }
}

const PROFILE: &str = "openstack";

const NEXT: &str = "\
next:
  archipel init --site …   an identity for this site, from the operator's authority
  archipel check           whether the configuration can be used
  archipel run             start it; name another site with `join` under [link]
  sh adopt.sh              send everybody to it
  sh release.sh            send everybody back, whenever you like
In the services' own files, `auth_url` of [keystone_authtoken] should be the new internal address of Keystone:
Archipel then knows which tokens are the services' own.";

/// The catalog: from a file, or from the stock client, which knows every way to log in.
fn catalog(file: Option<&Path>) -> Result<String, Failure> {
    let unreadable = |path: &Path, error: &io::Error| {
        Failure::Usage(format!("the catalog `{}` cannot be read: {error}", path.display()))
    };
    match file {
        Some(path) if path.as_os_str() == "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
            Ok(text)
        }
        Some(path) => fs::read_to_string(path).map_err(|error| unreadable(path, &error)),
        None => {
            let output = Command::new("openstack").args(["endpoint", "list", "-f", "json"]).output();
            let output = output.map_err(|error| {
                Failure::Usage(format!(
                    "the stock client `openstack` cannot be run: {error}\n\
                     help: give its output with --catalog FILE"
                ))
            })?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(Failure::Usage(format!("`openstack endpoint list` failed: {}", said.trim())));
            }
            String::from_utf8(output.stdout)
                .map_err(|_| Failure::Usage("`openstack endpoint list` did not print text".to_owned()))
        }
    }
}

fn files(adoption: &Adoption) -> [(&'static str, &str); 3] {
    [("archipel.toml", &adoption.config), ("adopt.sh", &adoption.adopt), ("release.sh", &adoption.release)]
}

fn shown(adoption: &Adoption) -> String {
    let mut text = String::new();
    for (name, content) in files(adoption) {
        text.push_str(&format!("== {name}\n{content}\n"));
    }
    text.push_str(&left(adoption));
    text.trim_end().to_owned()
}

fn left(adoption: &Adoption) -> String {
    adoption.left.iter().flat_map(|line| ["left alone: ", line, "\n"]).collect()
}

/// Writes all, or nothing where one is there already.
fn write(directory: &Path, adoption: &Adoption) -> io::Result<String> {
    fs::create_dir_all(directory)?;
    for (name, _) in files(adoption) {
        let path = directory.join(name);
        if path.exists() {
            let why = format!("`{}` is there already, and is not overwritten", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
    }
    let mut text = String::new();
    for (name, content) in files(adoption) {
        let path = directory.join(name);
        OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(content.as_bytes())?;
        text.push_str(&format!("wrote {}\n", path.display()));
    }
    Ok(text)
}
