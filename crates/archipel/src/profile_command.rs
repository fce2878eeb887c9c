//! `archipel profile`: whether a profile can be used, and whether it is true.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use archipel::against::{Comparison, Finding, Seen};
use archipel::config::Faults;
use archipel::demo::Client;
use clap::{Args, Subcommand};
use http::Uri;
use profile::Profile;

use crate::Failure;

#[derive(Subcommand)]
pub(crate) enum ProfileCommand {
    /// Find the faults of a profile, and compare it with a service.
    Check(CheckProfile),
}

impl ProfileCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        match self {
            ProfileCommand::Check(check) => check.run(),
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel profile check shop.toml
  archipel profile check shop.toml --against http://127.0.0.1:8080
  archipel profile check shop.toml --against http://127.0.0.1:8080 --list /shops/1/items
  archipel profile check shop.toml --against http://127.0.0.1:8080 --create /items='{\"name\": \"a test\"}'

Every fault is explained with its line, with exit status 2. With --against, each list, total and kind of
resource whose path has no `*` is asked for by GETs, and what differs from the profile is told, with exit
status 1. Only --create writes: it makes one resource, and deletes it. Ask the service itself, not Archipel.
docs/profiles.md is the reference of profiles.")]
pub(crate) struct CheckProfile {
    /// The profile.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the service is: `http://host:port`.
    #[arg(long, value_name = "URL")]
    against: Option<String>,
    /// Which of the profile's services that is, if it has several.
    #[arg(long, value_name = "NAME", requires = "against")]
    service: Option<String>,
    /// A collection to look at besides, such as `/shops/1/items`.
    #[arg(long, value_name = "PATH", requires = "against")]
    list: Vec<String>,
    /// A header to send, such as a credential.
    #[arg(long, value_name = "NAME: VALUE", requires = "against")]
    header: Vec<String>,
    /// Make a resource of this collection and document, and delete it.
    #[arg(long, value_name = "PATH=DOCUMENT", requires = "against")]
    create: Option<String>,
}

impl CheckProfile {
    fn run(&self) -> Result<String, Failure> {
        let shown = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::Usage(format!("`{shown}` cannot be read: {error}")))?;
        if let Some(faults) = Faults::of_profile(&shown.to_string(), &text) {
            return Err(Failure::Config(Box::new(faults)));
        }
        let profile = Profile::read(&text).map_err(|error| Failure::Usage(error.to_string()))?;
        let Some(url) = &self.against else { return Ok("ok".to_owned()) };
        let findings = self.compare(&profile, url)?;
        let differs = findings.iter().any(|finding| matches!(finding, Finding::Differs(_)));
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        match (lines.is_empty(), differs) {
            (true, _) => Err(Failure::Usage(
                "the profile has no path without `*`: say with --list which collections to look at"
                    .to_owned(),
            )),
            (false, false) => Ok(lines.join("\n")),
            (false, true) => Err(Failure::Found(lines.join("\n"))),
        }
    }

    fn compare(&self, profile: &Profile, url: &str) -> Result<Vec<Finding>, Failure> {
        let (address, prefix) = reach(url).map_err(Failure::Usage)?;
        let service = self.service(profile)?;
        let split = |text: &String| {
            let (name, value) = text.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let headers = self.header.iter().map(split).collect::<Option<Vec<_>>>();
        let headers = headers.ok_or_else(|| Failure::Usage("--header: write 'Name: value'".to_owned()))?;
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let create = self.create.as_ref().map(|text| {
            let hint = || Failure::Usage("--create: write /collection='{\"name\": \"a test\"}'".to_owned());
            text.split_once('=').filter(|(path, _)| path.starts_with('/')).ok_or_else(hint)
        });
        let create = create.transpose()?;
        let client = Client::new().map_err(Failure::Io)?;
        let mut ask = |method: &str, path: &str, body: Option<&str>| {
            let answer = client.ask(method, address, &format!("{prefix}{path}"), &headers, body)?;
            Ok(Seen { status: answer.status.as_u16(), headers: answer.headers, body: answer.body })
        };
        Ok(Comparison::new(profile, &service, &mut ask).run(&self.list, create))
    }

    /// The service that is asked, by its canonical name.
    fn service(&self, profile: &Profile) -> Result<String, Failure> {
        let known: Vec<&String> = profile.services.keys().collect();
        match (&self.service, known.as_slice()) {
            (Some(name), _) => profile.services().canonical(name).map(String::from).ok_or_else(|| {
                let known = scope::some_of(profile.services.keys().map(String::as_str));
                Failure::Usage(format!("--service: the profile has no service `{name}`; known are {known}"))
            }),
            // Every name is a service.
            (None, []) => Ok("service".to_owned()),
            (None, [only]) => Ok((*only).clone()),
            (None, several) => {
                let several = scope::some_of(several.iter().map(|name| name.as_str()));
                Err(Failure::Usage(format!("say with --service which of {several} is at that address")))
            }
        }
    }
}

/// Where a URL leads, and what its paths begin with.
fn reach(url: &str) -> Result<(SocketAddr, String), String> {
    let hint =
        || format!("`{}`: write the address of the service itself, http://host:port", url.escape_debug());
    let uri: Uri = url.parse().map_err(|_| hint())?;
    if uri.scheme_str() != Some("http") {
        return Err(hint());
    }
    let host = uri.host().ok_or_else(hint)?.trim_matches(['[', ']']).to_owned();
    let mut found = (host.as_str(), uri.port_u16().unwrap_or(80))
        .to_socket_addrs()
        .map_err(|error| format!("`{url}`: {error}"))?;
    let address = found.next().ok_or_else(hint)?;
    Ok((address, uri.path().trim_end_matches('/').to_owned()))
}
