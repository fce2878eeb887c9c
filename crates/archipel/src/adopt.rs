//! Putting Archipel in front of the services that a catalog lists: which listeners, and which addresses change.
//!
//! Pure: a catalog in, the text of three files out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use http::Uri;
use profile::Profile;
use serde_json::Value;

/// How a site is adopted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The site's name.
    pub site: String,
    /// The profile's name.
    pub profile: String,
    /// Only endpoints of this region count.
    pub region: Option<String>,
    /// How clients reach Archipel.
    pub public: Side,
    /// How the site's own services do.
    pub internal: Side,
    /// Certificate and key of the listeners, where the endpoints speak TLS.
    pub tls: Option<(String, String)>,
}

/// One of the two sides of Archipel.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// What is added to a service's port.
    pub offset: u16,
    /// Where its listeners bind; else the host of the endpoint, if that is an address, or every address.
    pub bind: Option<IpAddr>,
    /// The host by which it is reached; else that of the endpoint.
    pub host: Option<String>,
}

/// What has to be written and run.
#[derive(Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The configuration.
    pub config: String,
    /// Shell commands that send everybody to Archipel.
    pub adopt: String,
    /// Shell commands that undo that.
    pub release: String,
    /// What was left alone, and why, one line each.
    pub left: Vec<String>,
}

/// One line of the catalog.
struct Endpoint {
    id: String,
    kind: String,
    public: bool,
    url: String,
    scheme: String,
    host: String,
    port: u16,
    /// The path. It may be a template: `/v1/%(project_id)s`.
    rest: String,
}

/// One service, as it will be.
struct Service<'c> {
    name: Box<str>,
    upstream: String,
    /// Its listeners: for clients, and for the site's own services.
    public: Option<(IpAddr, u16)>,
    internal: Option<(IpAddr, u16)>,
    tls: bool,
    endpoints: Vec<&'c Endpoint>,
}

/// Says what to do for a catalog, as `openstack endpoint list -f json` prints it.
///
/// # Errors
/// If it is not a catalog, or cannot be adopted so.
pub fn adopt(catalog: &str, profile: &Profile, options: &Options) -> Result<Adoption, String> {
    let hosts = [&options.public.host, &options.internal.host].into_iter().flatten();
    if let Some(host) = hosts.into_iter().find(|host| !is_plain(host)) {
        return Err(format!("`{}` is not the name of a host", host.escape_debug()));
    }
    let mut left = Vec::new();
    let endpoints = read(catalog, options.region.as_deref(), &mut left)?;
    let known = profile.services();
    let mut groups: BTreeMap<Box<str>, Vec<&Endpoint>> = BTreeMap::new();
    for endpoint in &endpoints {
        match known.canonical(&endpoint.kind) {
            Some(name) => groups.entry(name).or_default().push(endpoint),
            None => left.push(format!("{} {}: the profile has no such service", endpoint.kind, endpoint.url)),
        }
    }
    let mut taken = endpoints.iter().map(|endpoint| endpoint.port).collect();
    let mut services = Vec::new();
    for (name, group) in groups {
        services.push(Service::of(name, &group, options, &mut taken, &mut left)?);
    }
    if services.is_empty() {
        return Err("the catalog has no endpoint of a service that the profile knows".to_owned());
    }
    let (adopt, release) = commands(&services, options)?;
    Ok(Adoption { config: config(&services, options), adopt, release, left })
}

fn read(catalog: &str, region: Option<&str>, left: &mut Vec<String>) -> Result<Vec<Endpoint>, String> {
    let lines: Value =
        serde_json::from_str(catalog).map_err(|error| format!("the catalog is not JSON: {error}"))?;
    let lines = lines.as_array().ok_or("the catalog is not a list of endpoints")?;
    let mut endpoints = Vec::new();
    let mut regions = BTreeSet::new();
    for line in lines {
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
        let (id, kind, url) = (text("ID"), text("Service Type"), text("URL"));
        if id.is_empty() || kind.is_empty() || url.is_empty() {
            return Err("the catalog has a line without `ID`, `Service Type` or `URL`".to_owned());
        }
        if region.is_some_and(|region| region != text("Region")) {
            continue;
        }
        regions.insert(text("Region"));
        if line.get("Enabled").and_then(Value::as_bool) == Some(false) {
            left.push(format!("{kind} {url}: it is disabled"));
            continue;
        }
        match Endpoint::new(id, kind, text("Interface") == "public", url) {
            Some(endpoint) => endpoints.push(endpoint),
            None => left.push(format!("{kind} {url}: this is not an address of an HTTP service")),
        }
    }
    if regions.len() > 1 {
        let regions: Vec<&str> = regions.into_iter().collect();
        return Err(format!(
            "the catalog has several regions, {}: say which with --region",
            regions.join(", ")
        ));
    }
    Ok(endpoints)
}

impl Endpoint {
    fn new(id: &str, kind: &str, public: bool, url: &str) -> Option<Endpoint> {
        let (scheme, after) = url.split_once("://")?;
        let path = after.find('/').unwrap_or(after.len());
        let (authority, rest) = after.split_at(path);
        let address: Uri = format!("{scheme}://{authority}").parse().ok()?;
        let scheme = address.scheme_str()?.to_owned();
        let port = match scheme.as_str() {
            "http" => address.port_u16().unwrap_or(80),
            "https" => address.port_u16().unwrap_or(443),
            _ => return None,
        };
        if !is_plain(url) || !is_plain(id) {
            return None;
        }
        Some(Endpoint {
            id: id.to_owned(),
            kind: kind.to_owned(),
            public,
            url: url.to_owned(),
            host: address.host()?.to_owned(),
            port,
            rest: rest.to_owned(),
            scheme,
        })
    }

    fn authority(&self) -> String {
        format!("{}://{}:{}", self.scheme, self.host, self.port)
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }
}

impl<'c> Service<'c> {
    fn of(
        name: Box<str>,
        group: &[&'c Endpoint],
        options: &Options,
        taken: &mut BTreeSet<u16>,
        left: &mut Vec<String>,
    ) -> Result<Service<'c>, String> {
        // The services' own way to each other is the shorter one.
        let own = group.iter().find(|endpoint| !endpoint.public).or(group.first());
        let Some(own) = own else { return Err(format!("`{name}` has no endpoint")) };
        // An internal address and a public one are commonly two names of one service. Two internal ones, such as
        // those of two versions, may be two services.
        let (endpoints, others): (Vec<_>, Vec<_>) = group
            .iter()
            .copied()
            .partition(|endpoint| endpoint.public || endpoint.authority() == own.authority());
        for other in others {
            left.push(format!("{} {}: `{name}` is at {}", other.kind, other.url, own.authority()));
        }
        let tls = endpoints.iter().any(|endpoint| endpoint.scheme == "https");
        if let (true, None) = (tls, &options.tls) {
            let secure = endpoints.iter().find(|endpoint| endpoint.scheme == "https").unwrap_or(own);
            return Err(format!(
                "{} speaks TLS: say with --certificate and --key what Archipel's listeners are to show",
                secure.url
            ));
        }
        let mut listener = |public: bool, side: &Side| {
            let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.public == public) else {
                return Ok(None);
            };
            let every = public.then_some(IpAddr::from([0, 0, 0, 0]));
            let bind = side.bind.or(endpoint.ip()).or(every).ok_or_else(|| {
                format!(
                    "{} does not say at which address only the site's own services reach Archipel: say it with \
                     --internal-bind",
                    endpoint.url
                )
            })?;
            let port = free(endpoint.port, side.offset, taken)
                .ok_or_else(|| format!("no port is left above {} for `{name}`", endpoint.port))?;
            Ok::<_, String>(Some((bind, port)))
        };
        let public = listener(true, &options.public)?;
        let internal = listener(false, &options.internal)?;
        Ok(Service { upstream: own.authority(), public, internal, tls, endpoints, name })
    }

    /// Where an endpoint leads from now on.
    fn moved(&self, endpoint: &Endpoint, options: &Options) -> Option<String> {
        let (side, listener) =
            if endpoint.public { (&options.public, self.public) } else { (&options.internal, self.internal) };
        let (_, port) = listener?;
        let host = side.host.as_deref().unwrap_or(&endpoint.host);
        let scheme = if self.tls { "https" } else { "http" };
        Some(format!("{scheme}://{host}:{port}{}", endpoint.rest))
    }
}

/// Whether a text is harmless in a command of a shell, between single quotes.
fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c == '\'' || c.is_control() || c.is_whitespace())
}

/// The port for a listener: that of the service and the offset, or the next that nobody has.
fn free(port: u16, offset: u16, taken: &mut BTreeSet<u16>) -> Option<u16> {
    let first = port.checked_add(offset)?;
    (first..=u16::MAX).find(|port| taken.insert(*port))
}

fn config(services: &[Service<'_>], options: &Options) -> String {
    let mut text = format!(
        "# {site}: Archipel in front of the services of its catalog. `archipel check` says what it means.\n\
         site = {site_text}\n\
         profile = {profile}\n\
         identity = \"identity\"\n\
         state = \"state\"\n\
         \n\
         # Where the other sites reach this one, and the link of one of them.\n\
         [link]\n\
         listen = \"0.0.0.0:7400\"\n\
         # join = [\"site2.example:7400\"]\n\
         \n\
         # Whose tokens are honoured here, and the user of this site that looks people up: docs/identity.md.\n\
         # [tokens.login]\n\
         # user = \"archipel\"\n\
         # domain = \"Default\"\n\
         # project = \"service\"\n\
         # password_file = \"password\"\n\
         # [[tokens.accept]]\n\
         # from = \"Site2\"\n\
         # projects = [\"demo\", \"service\"]\n",
        site = options.site,
        site_text = quoted(&options.site),
        profile = quoted(&options.profile),
    );
    for service in services {
        let _ = write!(text, "\n[services.{}]\n", quoted(&service.name));
        for (name, listener) in [("public", service.public), ("internal", service.internal)] {
            if let Some((bind, port)) = listener {
                let address = std::net::SocketAddr::new(bind, port);
                let _ = writeln!(text, "{name} = [\"{address}\"]");
            }
        }
        let _ = writeln!(text, "upstreams = [{}]", quoted(&service.upstream));
        if let (true, Some((certificate, key))) = (service.tls, &options.tls) {
            let (certificate, key) = (quoted(certificate), quoted(key));
            let _ = writeln!(text, "tls = {{ certificate = {certificate}, key = {key} }}");
        }
    }
    text
}

/// A text as TOML has it: a string of JSON is one.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The commands that change the catalog, and those that change it back. They ask Keystone itself, not the address that
/// the catalog has of it: the way back is open also while Archipel does not run.
fn commands(services: &[Service<'_>], options: &Options) -> Result<(String, String), String> {
    let keystone = services.iter().find(|service| &*service.name == "identity");
    let keystone = keystone.and_then(|service| {
        let rest = &service.endpoints.iter().find(|endpoint| endpoint.authority() == service.upstream)?.rest;
        Some(format!("{}{}/v3", service.upstream, rest.trim_end_matches('/').trim_end_matches("/v3")))
    });
    let keystone = keystone.ok_or("the catalog has no endpoint of `identity`")?;
    let head = |what: &str| {
        format!(
            "#!/bin/sh\n\
             # {}: {what}\n\
             # OS_AUTH_URL, or the cloud that OS_CLOUD names, must be Keystone itself: {keystone}\n\
             set -e\n\
             token=$(openstack token issue -f value -c id)\n\
             set_url() {{\n    \
                 env -u OS_CLOUD -u OS_USER_DOMAIN_NAME -u OS_USER_DOMAIN_ID -u OS_PROJECT_DOMAIN_NAME \\\n        \
                     -u OS_PROJECT_DOMAIN_ID -u OS_USERNAME -u OS_PASSWORD -u OS_PROJECT_NAME -u OS_PROJECT_ID \\\n        \
                     openstack --os-auth-type admin_token --os-endpoint '{keystone}' --os-token \"$token\" \\\n        \
                     endpoint set --url \"$1\" \"$2\"\n\
             }}\n",
            options.site
        )
    };
    let mut adopt = head("everybody is sent to Archipel. Run it once Archipel does.");
    let mut release = head("everybody is sent to the services themselves, as before.");
    for service in services {
        let _ = write!(adopt, "\n# {}\n", service.name);
        let _ = write!(release, "\n# {}\n", service.name);
        for endpoint in &service.endpoints {
            let Some(moved) = service.moved(endpoint, options) else { continue };
            let set = |url: &str| format!("set_url '{url}' '{}'\n", endpoint.id);
            adopt.push_str(&set(&moved));
            release.push_str(&set(&endpoint.url));
        }
    }
    Ok((adopt, release))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOG: &str = r#"[
        {"ID": "1", "Region": "R", "Service Type": "identity", "Enabled": true, "Interface": "public", "URL": "http://cloud.example:5000/v3"},
        {"ID": "2", "Region": "R", "Service Type": "identity", "Enabled": true, "Interface": "internal", "URL": "http://192.0.2.1:5000/v3"},
        {"ID": "3", "Region": "R", "Service Type": "volumev3", "Enabled": true, "Interface": "public", "URL": "http://cloud.example:8776/v3/%(project_id)s"},
        {"ID": "4", "Region": "R", "Service Type": "volumev3", "Enabled": true, "Interface": "internal", "URL": "http://192.0.2.1:8776/v3/%(project_id)s"},
        {"ID": "5", "Region": "R", "Service Type": "teapot", "Enabled": true, "Interface": "public", "URL": "http://cloud.example:418"},
        {"ID": "6", "Region": "R", "Service Type": "image", "Enabled": false, "Interface": "public", "URL": "http://cloud.example:9292"}
    ]"#;

    fn options() -> Options {
        let side = |offset| Side { offset, ..Side::default() };
        Options {
            site: "Site1".to_owned(),
            profile: "openstack".to_owned(),
            region: None,
            public: side(10_000),
            internal: side(20_000),
            tls: None,
        }
    }

    fn of(catalog: &str, options: &Options) -> Result<Adoption, String> {
        adopt(catalog, &Profile::named("openstack").unwrap(), options)
    }

    fn lines(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.starts_with("set_url '")).collect()
    }

    #[test]
    fn every_endpoint_of_a_known_service_is_moved_and_can_be_moved_back() {
        let adoption = of(CATALOG, &options()).unwrap();
        assert_eq!(
            lines(&adoption.adopt),
            [
                "set_url 'http://cloud.example:15000/v3' '1'",
                "set_url 'http://192.0.2.1:25000/v3' '2'",
                "set_url 'http://cloud.example:18776/v3/%(project_id)s' '3'",
                "set_url 'http://192.0.2.1:28776/v3/%(project_id)s' '4'",
            ]
        );
        assert_eq!(
            lines(&adoption.release),
            [
                "set_url 'http://cloud.example:5000/v3' '1'",
                "set_url 'http://192.0.2.1:5000/v3' '2'",
                "set_url 'http://cloud.example:8776/v3/%(project_id)s' '3'",
                "set_url 'http://192.0.2.1:8776/v3/%(project_id)s' '4'",
            ]
        );
        assert_eq!(
            adoption.left,
            [
                "image http://cloud.example:9292: it is disabled",
                "teapot http://cloud.example:418: the profile has no such service",
            ]
        );
        let config: toml::Table = adoption.config.parse().unwrap();
        let volume = &config["services"]["volume"];
        assert_eq!(volume["public"][0].as_str(), Some("0.0.0.0:18776"));
        assert_eq!(volume["internal"][0].as_str(), Some("192.0.2.1:28776"));
        assert_eq!(volume["upstreams"][0].as_str(), Some("http://192.0.2.1:8776"));
    }

    #[test]
    fn services_behind_one_port_get_listeners_of_their_own() {
        let catalog = CATALOG.replace(":5000/v3", "/identity/v3").replace(":8776/v3", "/volume/v3");
        let adoption = of(&catalog, &options()).unwrap();
        assert_eq!(
            lines(&adoption.adopt),
            [
                "set_url 'http://cloud.example:10080/identity/v3' '1'",
                "set_url 'http://192.0.2.1:20080/identity/v3' '2'",
                "set_url 'http://cloud.example:10081/volume/v3/%(project_id)s' '3'",
                "set_url 'http://192.0.2.1:20081/volume/v3/%(project_id)s' '4'",
            ]
        );
    }

    #[test]
    fn the_services_own_side_is_open_to_nobody_else_by_default() {
        let catalog = CATALOG.replace("192.0.2.1", "controller");
        assert!(of(&catalog, &options()).unwrap_err().contains("--internal-bind"));
        let mut options = options();
        options.internal.bind = "192.0.2.1".parse().ok();
        assert!(of(&catalog, &options).unwrap().config.contains("internal = [\"192.0.2.1:25000\"]"));
    }

    #[test]
    fn what_speaks_tls_goes_on_speaking_tls() {
        let catalog = CATALOG.replace("http://cloud", "https://cloud");
        assert!(of(&catalog, &options()).unwrap_err().contains("--certificate"));
        let tls = Some(("cert.pem".to_owned(), "key.pem".to_owned()));
        let adoption = of(&catalog, &Options { tls, ..options() }).unwrap();
        assert!(adoption.adopt.contains("'https://cloud.example:15000/v3' '1'"), "{}", adoption.adopt);
        assert!(adoption.adopt.contains("'https://192.0.2.1:25000/v3' '2'"), "{}", adoption.adopt);
        assert!(adoption.config.contains("certificate = \"cert.pem\""), "{}", adoption.config);
    }

    #[test]
    fn nothing_of_a_catalog_is_a_command() {
        let hostile = [
            CATALOG.replace("\"1\"", "\"1'; rm -r x; '\""),
            CATALOG.replace("http://cloud.example:5000/v3", "http://cloud.example:5000/'$(reboot)'"),
            CATALOG.replace("http://cloud.example:5000/v3", "http://cloud.example:5000/v3\\nreboot"),
        ];
        for catalog in hostile {
            let adoption = of(&catalog, &options()).unwrap();
            assert!(
                !adoption.adopt.contains("reboot") && !adoption.adopt.contains("rm -r"),
                "{}",
                adoption.adopt
            );
        }
    }

    #[test]
    fn a_catalog_that_is_none_or_of_two_regions_is_refused() {
        for catalog in ["", "{}", "[{}]", "[]", "[{\"ID\": 1}]"] {
            of(catalog, &options()).unwrap_err();
        }
        let two = CATALOG.replacen("\"R\"", "\"Q\"", 1);
        assert!(of(&two, &options()).unwrap_err().contains("Q, R"));
        let region = Some("R".to_owned());
        assert_eq!(lines(&of(&two, &Options { region, ..options() }).unwrap().adopt).len(), 3);
    }
}
