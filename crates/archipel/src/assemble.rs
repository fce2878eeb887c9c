//! A configuration turned into what the data plane takes: files are read here, and nowhere later.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderName, HeaderValue};
use mesh::Mesh;
use mesh::upstream::{self, Target};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{Accept, Audit, Config, Mode, Named, Replication, Service, Tls};
use crate::identity::{self, CheckedIdentity};
use crate::members::{self, Members};

/// What the data plane takes, from a configuration and the sites that are known. The error says which file is
/// at fault.
pub fn settings(config: &Config, members: &Members) -> Result<mesh::Settings, String> {
    Ok(settings_of(config, members)?.0)
}

/// The same, with the identity that they have.
fn settings_of(config: &Config, members: &Members) -> Result<(mesh::Settings, Identified), String> {
    let own = config.link.as_ref().map(|link| identity::check(link, &config.site)).transpose()?.map(Arc::new);
    let services = config.services.iter().map(|(name, service)| {
        let built = self::service(service).map_err(|why| format!("service `{name}`: {why}"))?;
        Ok((name.clone(), built))
    });
    let settings = mesh::Settings {
        site: config.site.clone(),
        dialect: config.dialect(),
        sites: match &config.link {
            Some(_) => members.snapshot(),
            None => Arc::new(members::View::of_file(config)),
        },
        profile: config.profile.clone(),
        observe: config.mode == Mode::Observe,
        services: services.collect::<Result<_, String>>()?,
        link: link(config, members, own.as_deref())?,
        replication: config.replication.as_ref().map(|own| replication(own, &config.state)).transpose()?,
        tokens: tokens(config)?,
        thin: config.thin,
        limits: limits(config),
        timeouts: timeouts(config),
    };
    Ok((settings, own))
}

/// Who this site is, if it has a link.
type Identified = Option<Arc<CheckedIdentity>>;

/// Why a file that is named by a configuration cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is of the identity.
    Identity(String),
    /// It is any other.
    Other(String),
}

/// Looks at every file that a configuration names as [`settings`] will, and says what an operator should see to. Nothing is
/// written.
pub fn check(config: &Config) -> Result<Vec<String>, Unusable> {
    for (name, own) in &config.services {
        service(own).map_err(|why| Unusable::Other(format!("service `{name}`: {why}")))?;
    }
    if let Some(own) = &config.replication {
        replication(own, &config.state).map_err(Unusable::Other)?;
    }
    tokens(config).map_err(Unusable::Other)?;
    let own = config.link.as_ref().map(|link| identity::check(link, &config.site)).transpose();
    let own = own.map_err(Unusable::Identity)?;
    Ok(own.map(|own| own.warnings(SystemTime::now())).unwrap_or_default())
}

fn link(
    config: &Config,
    members: &Members,
    own: Option<&CheckedIdentity>,
) -> Result<Option<mesh::Link>, String> {
    let (Some(link), Some(own)) = (&config.link, own) else { return Ok(None) };
    Ok(Some(mesh::Link {
        listen: link.listen,
        source: link.source,
        // Before anybody can connect.
        revoked: members::revoked(&config.state, &own.identity)
            .map_err(|error| format!("cannot read the state in `{}`: {error}", config.state.display()))?,
        identity: Arc::clone(&own.identity),
        speaks: link::Speaks::NOW,
        backstage: Some(Arc::new(members.clone())),
    }))
}

fn replication(replication: &Replication, state: &Path) -> Result<mesh::Replication, String> {
    let credential = |(name, file): &(HeaderName, PathBuf)| {
        let shown = |why: &dyn std::fmt::Display| format!("`{}`: {why}", file.display());
        let text = fs::read_to_string(file).map_err(|error| shown(&error))?;
        let mut value = HeaderValue::try_from(text.trim_end()).map_err(|error| shown(&error))?;
        value.set_sensitive(true);
        Ok((name.clone(), value))
    };
    let of_service = |(service, headers): (&String, &Vec<_>)| {
        let headers = headers.iter().map(credential).collect::<Result<Vec<_>, String>>()?;
        Ok((service.clone(), headers))
    };
    let webhook = replication.webhook.as_ref().map(|(to, path)| {
        let tls =
            if to.tls { Some(upstream::client_tls(None).map_err(|error| error.to_string())?) } else { None };
        let target = Target { host: to.endpoint.host.clone(), port: to.endpoint.port, tls };
        Ok::<_, String>(mesh::Webhook { target, path: path.clone() })
    });
    Ok(mesh::Replication {
        webhook: webhook.transpose()?,
        directory: state.to_owned(),
        quota: u64::try_from(replication.quota_mib).unwrap_or(u64::MAX).saturating_mul(1 << 20),
        inline: replication.inline_bytes,
        accept_from: replication.accept_from.clone(),
        credentials: replication.credentials.iter().map(of_service).collect::<Result<_, String>>()?,
    })
}

/// Where there are other sites, it is remembered which of them issued a token, also if none is honoured.
fn tokens(config: &Config) -> Result<Option<mesh::Tokens>, String> {
    if config.profile.identity.is_none() || (config.link.is_none() && config.tokens.is_none()) {
        return Ok(None);
    }
    let own = config.tokens.clone().unwrap_or_default();
    let named = |Named { domain, name }| mesh::Named { domain, name };
    let login = own.login.map(|login| {
        let file = login.password;
        let text = fs::read_to_string(&file).map_err(|error| format!("`{}`: {error}", file.display()))?;
        let password = text.trim_end_matches(['\r', '\n']).to_owned();
        Ok::<_, String>(mesh::Login { user: named(login.user), project: named(login.project), password })
    });
    let accept = own.accept.into_iter().map(|(from, accept)| {
        let accept = match accept {
            Accept::All => mesh::Accept::All,
            Accept::Projects(projects) => {
                let pairs = projects.into_iter().map(|(theirs, ours)| (named(theirs), named(ours)));
                mesh::Accept::Projects(pairs.collect())
            }
        };
        (from, accept)
    });
    Ok(Some(mesh::Tokens {
        directory: Some(config.state.clone()),
        prefix: own.prefix,
        login: login.transpose()?,
        accept: accept.collect(),
    }))
}

/// A site's data plane and its membership, started: what `archipel run` and the demo are made of.
pub fn start(
    config: &Config,
    audit: mesh::Audit,
    say: impl Fn(&str) + Send + 'static,
) -> Result<(Arc<Mesh>, Members), String> {
    let secret = secret(&config.state)?;
    let (members, inbox) = Members::new(config);
    let (settings, identity) = settings_of(config, &members)?;
    members.identity().set(identity);
    let link = settings.link.clone();
    let mesh = Mesh::start(settings, config.threads, audit, secret).map_err(|error| error.to_string())?;
    let mesh = Arc::new(mesh);
    if let (Some(link), Some(address)) = (link, mesh.link_address()) {
        let start = members::Start {
            config: config.clone(),
            address,
            identity: link.identity,
            revoked: link.revoked,
            speaks: link.speaks,
            say: Box::new(say),
        };
        let shown = |error| format!("cannot take part in the membership at {address} (UDP): {error}");
        inbox.start(start).map_err(shown)?;
        members.attach(&mesh);
    }
    Ok((mesh, members))
}

/// Takes on a configuration that was read again. Where the link is stays as it was at the start: the other
/// sites know it there, and datagrams come to the same port.
pub fn reload(config: &Config, started_with: &Config, mesh: &Mesh, members: &Members) -> Result<(), String> {
    let (mut settings, own) = settings_of(config, members)?;
    settings.link = started_with
        .link
        .as_ref()
        .and_then(|old| settings.link.take().map(|link| mesh::Link { listen: old.listen, ..link }));
    let identity = settings.link.as_ref().map(|link| Arc::clone(&link.identity));
    mesh.reload(settings).map_err(|error| error.to_string())?;
    members.identity().set(own.filter(|_| identity.is_some()));
    members.reload(config.clone(), identity);
    Ok(())
}

fn service(service: &Service) -> Result<mesh::Service, String> {
    let needs_tls = service.upstreams.iter().any(|upstream| upstream.tls);
    let client_tls = if needs_tls {
        Some(upstream::client_tls(service.upstream_ca.as_deref()).map_err(|error| error.to_string())?)
    } else {
        None
    };
    let targets = service.upstreams.iter().map(|upstream| Target {
        host: upstream.endpoint.host.clone(),
        port: upstream.endpoint.port,
        tls: client_tls.clone().filter(|_| upstream.tls),
    });
    let health = service.health.as_ref().map(|health| {
        let path = health.path.parse().map_err(|_| format!("`{}` is not a path", health.path))?;
        Ok::<_, String>(upstream::health::Check { path, interval: health.interval, timeout: health.timeout })
    });
    Ok(mesh::Service {
        public: service.public.clone(),
        internal: service.internal.clone(),
        upstreams: targets.collect(),
        tls: service.tls.as_ref().map(server_tls).transpose()?,
        scope: service.scope.clone().map(Arc::new),
        strict: service.strict,
        settle: service.settle,
        health: health.transpose()?,
    })
}

fn server_tls(tls: &Tls) -> Result<Arc<rustls::ServerConfig>, String> {
    let shown = |path: &Path, why: &dyn std::fmt::Display| format!("`{}`: {why}", path.display());
    let certificates = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| shown(&tls.certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| shown(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| shown(&tls.certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn limits(config: &Config) -> mesh::Limits {
    let limits = &config.limits;
    mesh::Limits {
        header_bytes: limits.header_bytes,
        headers: limits.headers,
        connections: limits.connections,
        requests: limits.requests,
        requests_per_peer: limits.requests_per_peer,
        records_per_sender: limits.records_per_sender,
        record_lifetime: limits.record_lifetime,
        replay_bytes: limits.replay_bytes,
        streams: limits.streams,
    }
}

fn timeouts(config: &Config) -> mesh::Timeouts {
    let timeouts = &config.timeouts;
    mesh::Timeouts {
        header: timeouts.header,
        idle: timeouts.idle,
        connect: timeouts.connect,
        response: timeouts.response,
        peer_response: timeouts.peer_response,
        body_idle: timeouts.body_idle,
        hedge: timeouts.hedge,
    }
}

/// Where the audit log goes.
pub fn audit(config: &Config) -> Result<mesh::Audit, String> {
    let opened: Result<Box<dyn Write + Send>, String> = match &config.audit {
        None => return Ok(mesh::Audit::none()),
        Some(Audit::Stdout) => Ok(Box::new(io::stdout())),
        Some(Audit::File(path)) => fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map(|file| Box::new(file) as Box<dyn Write + Send>)
            .map_err(|error| format!("cannot write the audit log `{}`: {error}", path.display())),
    };
    mesh::Audit::to(opened?).map_err(|error| error.to_string())
}

/// The site's own secret, for the keys of scoped requests: made once, and kept, so that a key from before
/// a restart is still known for one of ours.
pub fn secret(state: &Path) -> Result<[u8; 16], String> {
    let path = state.join("key-secret");
    let shown = |error: io::Error| format!("cannot use `{}`: {error}", path.display());
    fs::create_dir_all(state).map_err(shown)?;
    match fs::read(&path) {
        Ok(bytes) => bytes.try_into().map_err(|_| {
            format!("`{}` is damaged: remove it, and calls of requests in flight are lost", path.display())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut secret = [0; 16];
            getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
            write_secret(&path, &secret).map_err(shown)?;
            Ok(secret)
        }
        Err(error) => Err(shown(error)),
    }
}

/// Whole or not at all, and for this user only.
fn write_secret(path: &Path, secret: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let draft = path.with_extension("new");
    let mut file = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(secret)?;
    file.sync_all()?;
    fs::rename(draft, path)
}
