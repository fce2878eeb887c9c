//! Commands that talk to a running archipel, over its admin socket.

use std::path::PathBuf;

use archipel::admin;
use clap::Args;
use http::Method;
use serde_json::Value;
use tokio::task::LocalSet;

use crate::{Failure, check_command};

/// Which archipel is meant.
#[derive(Args)]
pub(crate) struct Running {
    /// The configuration that it was started with.
    #[arg(long, value_name = "FILE", default_value = "archipel.toml")]
    config: PathBuf,
    /// Its state directory, if the configuration cannot be read just now.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Running {
    /// Asks it for something, or orders something.
    pub(crate) fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let state = match &self.state {
            Some(state) => state.clone(),
            None => check_command::load(&self.config)?.state.clone(),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Io)?;
        let answer = LocalSet::new().block_on(&runtime, admin::ask(&state, method, path, body));
        answer.map_err(|why| Failure::Io(std::io::Error::other(why)))
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    use std::fmt::Write;
    name.bytes().fold(String::new(), |mut segment, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            // A string takes what it is given.
            let _ = write!(segment, "%{byte:02X}");
        }
        segment
    })
}

/// A text in a document, or nothing.
pub(crate) fn text<'d>(document: &'d Value, field: &str) -> &'d str {
    document.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The members of a list in a document.
pub(crate) fn array<'d>(document: &'d Value, field: &str) -> impl Iterator<Item = &'d Value> {
    document.get(field).and_then(Value::as_array).into_iter().flatten()
}
