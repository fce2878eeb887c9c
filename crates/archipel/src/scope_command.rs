//! `archipel scope`: the language on its own, without a mesh.

use std::io::Read;
use std::time::Duration;

use clap::{Args, Subcommand};
use profile::Profile;
use scope::{Atlas, Dialect, Limits, Scope, Site, View, parse_duration};

use crate::Failure;

#[derive(Subcommand)]
pub(crate) enum ScopeCommand {
    /// Print a scope in its canonical form.
    #[command(after_help = "\
Examples:
  archipel scope fmt 'image : A && B'
  archipel scope fmt '{\"Compute\": \"Zone1\", \"Image\": \"Zone1 || Zone2\"}'
  archipel scope fmt --profile openstack 'glance: Site1 ; Site2'
  echo 'image: !Site3' | archipel scope fmt -

A scope that is not valid is explained on standard error, with exit status 2.")]
    Fmt {
        #[command(flatten)]
        text: Text,
    },
    /// Print where a service runs, given a scope and the sites.
    #[command(after_help = "\
Examples:
  archipel scope plan --service image --sites A,B,C 'image: !C'
  archipel scope plan --service image --sites A,B,C --rtt A-B=5ms,A-C=30ms 'image: around(A, 10ms)'
  archipel scope plan --service image --sites A,B,C --zone west='A & B' 'image: west ; C'
  archipel scope plan --service image --sites A,B --label A:region=eu 'image: where(region = eu)'
  archipel scope plan --service image --sites A,B --metric A:load=0.9,B:load=0.2 'image: by(load, *)'

Prints `here` for a service that the scope does not bind.
A scope that is not valid is explained on standard error, with exit status 2.")]
    Plan(PlanArgs),
}

#[derive(Args)]
pub(crate) struct Text {
    /// The scope; `-` reads it from standard input.
    #[arg(value_name = "TEXT")]
    text: String,
    /// The application, whose services and aliases the scope may use.
    #[arg(long, value_name = "PROFILE", default_value = "rest", value_parser = profile)]
    profile: Profile,
}

#[derive(Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    text: Text,
    /// The service to plan for.
    #[arg(long, value_name = "SERVICE")]
    service: String,
    /// The sites, in order.
    #[arg(long, value_name = "SITE,…", value_delimiter = ',', required = true)]
    sites: Vec<String>,
    /// The site at which the request enters [default: the first of --sites].
    #[arg(long, value_name = "SITE")]
    here: Option<String>,
    /// Round trips between two sites.
    #[arg(long, value_name = "SITE-SITE=TIME,…", value_delimiter = ',')]
    rtt: Vec<String>,
    /// A zone: a name for a location.
    #[arg(long, value_name = "ZONE=LOCATION")]
    zone: Vec<String>,
    /// Labels of sites.
    #[arg(long, value_name = "SITE:LABEL=VALUE,…", value_delimiter = ',')]
    label: Vec<String>,
    /// Metrics of sites.
    #[arg(long, value_name = "SITE:METRIC=NUMBER,…", value_delimiter = ',')]
    metric: Vec<String>,
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| {
        let known: Vec<&str> = Profile::names().collect();
        format!("the profiles are {}", known.join(", "))
    })
}

impl ScopeCommand {
    /// The line to print.
    pub(crate) fn run(self) -> Result<String, Failure> {
        match self {
            ScopeCommand::Fmt { text } => {
                let (scope, _) = text.read()?;
                Ok(scope.to_string())
            }
            ScopeCommand::Plan(plan) => plan.run(),
        }
    }
}

impl Text {
    fn read(self) -> Result<(Scope, Dialect), Failure> {
        let dialect = Dialect { services: self.profile.services(), limits: Limits::default() };
        let mut text = self.text;
        if text == "-" {
            text = from_stdin(dialect.limits.text_bytes)?;
        }
        Ok((dialect.scope(&text)?, dialect))
    }
}

impl PlanArgs {
    fn run(self) -> Result<String, Failure> {
        let (scope, dialect) = self.text.read()?;
        let known = |name: &String| scope::is_name(name);
        let Some(service) =
            Some(&self.service).filter(|n| known(n)).and_then(|n| dialect.services.canonical(n))
        else {
            let near = suggestion(&self.service, dialect.services.known());
            return usage(format!(
                "--service: this application has no service `{}`{near}",
                shown(&self.service)
            ));
        };
        let mut sites = Vec::with_capacity(self.sites.len());
        for name in self.sites.iter().map(|name| name.trim()) {
            match Site::new(name) {
                Some(site) if sites.contains(&site) => {
                    return usage(format!("--sites: `{name}` is given twice"));
                }
                Some(site) => sites.push(site),
                None => return usage(format!("--sites: `{}` cannot be a site's name", shown(name))),
            }
        }
        let Some(mut atlas) = Atlas::new(sites) else { return usage("--sites: name at least one site") };
        if let Some(here) = &self.here {
            let here = site(&atlas, "--here", here)?;
            atlas.set_here(here);
        }
        for option in &self.rtt {
            let (from, to, rtt) = distance(&atlas, option)?;
            atlas.set_rtt(from, to, rtt);
        }
        for option in &self.label {
            let (at, label, value) = of_site(&atlas, "--label", "SITE:LABEL=VALUE", option)?;
            atlas.set_label(at, label, value);
        }
        for option in &self.metric {
            let (at, metric, value) = of_site(&atlas, "--metric", "SITE:METRIC=NUMBER", option)?;
            match value.parse::<f64>() {
                Ok(value) if value.is_finite() => atlas.set_metric(at, metric, value),
                _ => return usage(format!("--metric {option}: `{value}` is not a number")),
            }
        }
        for option in &self.zone {
            let Some((name, text)) = option.split_once('=') else {
                return usage(format!("--zone {option}: write it as ZONE=LOCATION"));
            };
            atlas.define_zone(name.trim(), text, &dialect)?;
        }
        let plan = dialect.plan(&scope, &service, &atlas)?;
        Ok(plan.map_or_else(|| "here".to_owned(), |plan| plan.to_string()))
    }
}

/// Reads a scope, and no more than tells that there is too much. Its last line may end as lines do.
fn from_stdin(limit: usize) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(2);
    std::io::stdin().take(most).read_to_end(&mut bytes).map_err(Failure::Io)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.len() > limit {
        return usage(format!("standard input has more than {limit} bytes"));
    }
    String::from_utf8(bytes).or_else(|error| {
        usage(format!(
            "standard input is not text: byte {} is not UTF-8",
            error.utf8_error().valid_up_to() + 1
        ))
    })
}

fn usage<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Usage(why.into()))
}

fn site(atlas: &Atlas, option: &str, name: &str) -> Result<usize, Failure> {
    atlas.find(name).map_or_else(
        || {
            let near = suggestion(name, atlas.members().iter().map(Site::name));
            usage(format!("{option}: `{}` is not one of --sites{near}", shown(name)))
        },
        Ok,
    )
}

/// As it was typed, but nothing that would do something to a terminal.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() }).collect()
}

fn suggestion<'n>(written: &str, known: impl Iterator<Item = &'n str>) -> String {
    match scope::nearest(written, known).as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", scope::some_of(near.iter().copied())),
    }
}

/// A word that the language can write.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// `SITE:KEY=VALUE`. The names of sites have no colon in them.
fn of_site<'o>(
    atlas: &Atlas,
    option: &str,
    form: &str,
    given: &'o str,
) -> Result<(usize, &'o str, &'o str), Failure> {
    let parts = given.split_once(':').and_then(|(site, rest)| Some((site.trim(), rest.split_once('=')?)));
    match parts {
        Some((name, (key, value))) if is_word(key.trim()) && is_word(value.trim()) => {
            Ok((site(atlas, option, name)?, key.trim(), value.trim()))
        }
        _ => usage(format!("{option} {}: write it as {form}, each one word", shown(given))),
    }
}

/// `SITE-SITE=TIME`. The names of sites may have a dash in them: every place to cut is tried.
fn distance(atlas: &Atlas, given: &str) -> Result<(usize, usize, Duration), Failure> {
    let given = given.trim();
    let Some((pair, time)) = given.split_once('=') else {
        return usage(format!("--rtt {given}: write it as SITE-SITE=TIME"));
    };
    let cuts = pair.match_indices('-').filter_map(|(at, dash)| {
        let (from, to) = pair.split_at_checked(at)?;
        Some((atlas.find(from)?, atlas.find(to.strip_prefix(dash)?)?))
    });
    let cuts: Vec<(usize, usize)> = cuts.collect();
    let rtt = match parse_duration(time) {
        Ok(rtt) => rtt,
        Err(why) => return usage(format!("--rtt {given}: {why}")),
    };
    match cuts.as_slice() {
        [(from, to)] => Ok((*from, *to, rtt)),
        [] => usage(format!("--rtt {given}: `{pair}` is not two of --sites with a dash between")),
        _ => usage(format!("--rtt {given}: `{pair}` can be read as two sites in more than one way")),
    }
}
