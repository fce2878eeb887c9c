//! `archipel check`: whether a configuration can be used, without using it.

use std::io;
use std::path::{Path, PathBuf};

use archipel::assemble::{self, Unusable};
use archipel::config::{Config, Error, Faults};
use clap::Args;

use crate::{Failure, warn};

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel check
  archipel check /etc/archipel/archipel.toml

Prints what the file says, in short. Everything that is wrong with it is explained on standard
error, with exit status 2. So are identities, keys and other files that `archipel run` would refuse. What
it would start with all the same is a warning: an identity that expires soon, or has expired (the site
then serves its own clients alone), and a key that everybody can read. No port is bound and nothing is
written.")]
pub(crate) struct CheckCommand {
    /// The configuration.
    #[arg(value_name = "FILE", default_value = "archipel.toml")]
    file: PathBuf,
}

impl CheckCommand {
    /// The lines to print.
    pub(crate) fn run(self) -> Result<String, Failure> {
        let (config, warnings) = load_to_run(&self.file)?;
        for warning in &warnings {
            warn(warning);
        }
        Ok(format!("ok\n{config}"))
    }
}

/// Reads a configuration and looks at every file that it names, or says what is wrong: for `check` and `run` alike. Beside it,
/// what an operator should see to.
pub(crate) fn load_to_run(file: &Path) -> Result<(Config, Vec<String>), Failure> {
    let config = load(file)?;
    match assemble::check(&config) {
        Ok(warnings) => Ok((config, warnings)),
        Err(Unusable::Other(why)) => Err(Failure::Usage(why)),
        Err(Unusable::Identity(why)) => {
            // Only to point at the line: it was read a moment ago.
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let faults = Faults::of_key(&file.display().to_string(), &text, "identity", why);
            Err(Failure::Config(Box::new(faults)))
        }
    }
}

/// Reads a configuration, or says all that is wrong with it.
pub(crate) fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file).map_err(|error| match error {
        Error::Invalid(faults) => Failure::Config(Box::new(faults)),
        Error::Unreadable { path, source } => {
            let hint = match source.kind() {
                io::ErrorKind::NotFound => {
                    "\nhelp: give the path of a configuration; `docs/archipel.example.toml` is one to start from"
                }
                _ => "",
            };
            Failure::Usage(format!("`{}` cannot be read: {source}{hint}", path.display()))
        }
    })
}
