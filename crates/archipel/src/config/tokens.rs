//! `[tokens]`: which tokens of other sites are honoured here, and as whom.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use profile::Profile;
use scope::Site;

use super::fault::{Code, Fault};
use super::read::NAMES;
use super::table::{Entry, Table};
use super::{Peer, Service};

/// Which tokens of other sites are honoured here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// What the paths of the identity service begin with at this site.
    pub prefix: String,
    /// What this site's identity service knows Archipel by. There is one if any site is accepted.
    pub login: Option<Login>,
    /// The sites whose tokens are honoured, and for which projects.
    pub accept: BTreeMap<Site, Accept>,
}

/// What this site's identity service knows Archipel by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: Named,
    /// The project in which that user may look for users, projects and roles.
    pub project: Named,
    /// The file with its password.
    pub password: PathBuf,
}

/// A user or a project, by its name in a domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The domain.
    pub domain: String,
    /// The name.
    pub name: String,
}

/// For which projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accept {
    /// For each, as the one of the same name here.
    All,
    /// For these, each as one of this site's.
    Projects(BTreeMap<Named, Named>),
}

/// What the rest of the file says, against which this is checked.
pub(super) struct Beside<'b> {
    pub(super) profile: Option<&'b Profile>,
    pub(super) here: Option<&'b Site>,
    pub(super) peers: &'b BTreeMap<Site, Peer>,
    /// More sites may be met while it runs.
    pub(super) joins: bool,
}

impl Tokens {
    /// Reads the table. What of the services must be there is checked by [`Tokens::check`].
    pub(super) fn read(entry: Entry<'_>, beside: &Beside<'_>) -> Option<Tokens> {
        if beside.profile.is_some_and(|profile| profile.identity.is_none()) {
            entry.note_key(Code::Conflict, "`tokens` has no use", "the profile says nothing of tokens");
        }
        let mut table = entry.table()?;
        let prefix =
            table.take("path").and_then(|entry| Some(entry.parsed(Code::Value, prefix)?.into_inner()));
        let login = table.take("login").and_then(Entry::table).and_then(login);
        let items = table.take("accept").map(Entry::list).unwrap_or_default();
        if login.is_none() && !items.is_empty() {
            table.missing("login", "is missing or not whole: users of this site are found with it");
        }
        let domain = login.as_ref().map(|login| login.project.domain.as_str());
        let mut accept = BTreeMap::new();
        let mut places: BTreeMap<Site, Range<usize>> = BTreeMap::new();
        for item in items {
            let Some((from, at, projects)) = accepted(item, domain, beside) else { continue };
            if let Some(first) = places.insert(from.clone(), at.clone()) {
                let fault = Fault::new(Code::Conflict, format!("`{from}` is accepted twice"), at, "this one");
                table.note(fault.also(first, "has it already"));
            }
            accept.insert(from, projects);
        }
        table.finish();
        Some(Tokens { prefix: prefix.unwrap_or_default(), login, accept })
    }

    /// Notes what the services lack: other sites' tokens are honoured where this site's own services ask.
    pub(super) fn check(&self, root: &Table<'_>, profile: &Profile, services: &BTreeMap<String, Service>) {
        let Some(identity) = &profile.identity else { return };
        let name = &identity.service;
        if !self.accept.is_empty() && services.get(name).is_none_or(|service| service.internal.is_empty()) {
            let why = "is missing: this site's services ask there whether a token is valid";
            root.missing(&format!("services.{name}.internal"), why);
        }
    }
}

fn login(mut table: Table<'_>) -> Option<Login> {
    let text = |table: &mut Table<'_>, key| {
        let entry = table.require(key)?;
        Some(entry.parsed(Code::Value, one_name)?.into_inner())
    };
    let (user, domain, project) =
        (text(&mut table, "user"), text(&mut table, "domain"), text(&mut table, "project"));
    let other = table.take("project_domain");
    let other = other.and_then(|entry| Some(entry.parsed(Code::Value, one_name)?.into_inner()));
    let password = table.require("password_file").and_then(|entry| entry.file());
    table.finish();
    let domain = domain?;
    Some(Login {
        project: Named { domain: other.unwrap_or_else(|| domain.clone()), name: project? },
        user: Named { domain, name: user? },
        password: password?,
    })
}

fn accepted(
    item: Entry<'_>,
    domain: Option<&str>,
    beside: &Beside<'_>,
) -> Option<(Site, Range<usize>, Accept)> {
    let mut table = item.table()?;
    let from = table.require("from").and_then(|entry| from(&entry, beside));
    let projects = table.require("projects").and_then(|entry| projects(entry, domain));
    table.finish();
    let (from, at) = from?;
    Some((from, at, projects?))
}

fn from(entry: &Entry<'_>, beside: &Beside<'_>) -> Option<(Site, Range<usize>)> {
    let read = |name: &str| Site::new(name).ok_or_else(|| NAMES.to_owned());
    let site = entry.parsed(Code::Name, read)?.into_inner();
    if beside.here == Some(&site) {
        entry.note(Code::Conflict, "is this site", "its own tokens need no leave");
    } else if !beside.joins && !beside.peers.contains_key(&site) {
        let at = entry.within(0..site.name().len());
        entry.note_unknown("site", site.name(), at, beside.peers.keys().map(Site::name));
    }
    Some((site, entry.at.clone()))
}

/// `"*"`, a list of projects, or a table of theirs and ours.
fn projects(entry: Entry<'_>, domain: Option<&str>) -> Option<Accept> {
    let read = |text: &str| named(text, domain);
    if entry.is_table() {
        let mut projects = BTreeMap::new();
        for entry in entry.table()?.entries() {
            let theirs = read(&entry.name);
            if let Err(why) = &theirs {
                let message = format!("`{}` cannot be a project", entry.name.escape_debug());
                entry.note_key(Code::Name, message, why);
            }
            let ours = entry.parsed(Code::Value, read);
            projects.extend(theirs.ok().zip(ours.map(toml::Spanned::into_inner)));
        }
        return Some(Accept::Projects(projects));
    }
    if entry.is_string() {
        let all = |text: &str| {
            let hint = || "`*`, a list of projects, or a table of theirs and ours".to_owned();
            (text == "*").then_some(Accept::All).ok_or_else(hint)
        };
        return Some(entry.parsed(Code::Value, all)?.into_inner());
    }
    let items = entry.list();
    let items = items.iter().filter_map(|item| Some(item.parsed(Code::Value, read)?.into_inner()));
    Some(Accept::Projects(items.map(|project| (project.clone(), project)).collect()))
}

/// `domain/project`, or a project of the login's own domain.
fn named(text: &str, domain: Option<&str>) -> Result<Named, String> {
    let (domain, name) = text.split_once('/').unwrap_or((domain.unwrap_or_default(), text));
    let fits = |text: &str| one_name(text).is_ok();
    // Without a login the domain is not known, which was said.
    if !fits(name) || (text.contains('/') && !fits(domain)) {
        return Err("expected `project`, or `domain/project`".to_owned());
    }
    Ok(Named { domain: domain.to_owned(), name: name.to_owned() })
}

fn one_name(text: &str) -> Result<String, String> {
    let fits = (1..=255).contains(&text.len()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| "a name has 1 to 255 bytes".to_owned())
}

/// What paths begin with: nothing, or `/identity`.
fn prefix(text: &str) -> Result<String, String> {
    let fits = text.starts_with('/')
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'?'));
    let text = text.trim_end_matches('/');
    fits.then(|| text.to_owned()).ok_or_else(|| "such as `/identity`".to_owned())
}
