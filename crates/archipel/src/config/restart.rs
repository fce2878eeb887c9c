//! The keys whose change a running process does not follow. `docs/configuration.md` has the same table, and a test compares.

use super::Config;

/// A key that is fixed when a process starts.
pub struct RestartKey {
    /// Its name in the file, with those of the tables around it.
    pub key: &'static str,
    /// Why a running process does not follow it.
    pub because: &'static str,
    differs: fn(&Config, &Config) -> bool,
}

/// All of them. A reload takes on every other key.
pub const RESTART_KEYS: [RestartKey; 11] = [
    RestartKey {
        key: "site",
        because: "other sites know this one by its name",
        differs: |old, new| old.site != new.site,
    },
    RestartKey {
        key: "profile",
        because: "only its `propagation` and `identity`: requests under way were marked by them. All else of it is in force at once",
        differs: |old, new| {
            old.profile.propagation != new.profile.propagation || old.profile.identity != new.profile.identity
        },
    },
    RestartKey { key: "state", because: "its files are open", differs: |old, new| old.state != new.state },
    RestartKey {
        key: "threads",
        because: "they share the listeners among them",
        differs: |old, new| old.threads != new.threads,
    },
    RestartKey {
        key: "link.listen",
        because: "other sites know this one by its address",
        differs: |old, new| {
            let listen = |config: &Config| config.link.as_ref().map(|link| link.listen);
            listen(old) != listen(new)
        },
    },
    RestartKey {
        key: "replication.enabled",
        because: "what is kept of replicated resources is read at the start",
        differs: |old, new| old.replication.is_some() != new.replication.is_some(),
    },
    RestartKey {
        key: "replication.quota_mib",
        because: "only the room for long bodies: the spool is open. That for other writes is in force at once",
        differs: |old, new| {
            let quota = |config: &Config| config.replication.as_ref().map(|own| own.quota_mib);
            quota(old).is_some() && quota(new).is_some() && quota(old) != quota(new)
        },
    },
    RestartKey {
        key: "limits.records_per_sender",
        because: "recorded scopes would be lost",
        differs: |old, new| old.limits.records_per_sender != new.limits.records_per_sender,
    },
    RestartKey {
        key: "limits.record_lifetime",
        because: "recorded scopes would be lost",
        differs: |old, new| old.limits.record_lifetime != new.limits.record_lifetime,
    },
    RestartKey {
        key: "timeouts.drain",
        because: "a stop keeps to what was promised at the start",
        differs: |old, new| old.timeouts.drain != new.timeouts.drain,
    },
    RestartKey {
        key: "audit.file",
        because: "the file is open, and no line is lost",
        differs: |old, new| old.audit != new.audit,
    },
];

/// The keys that differ, and take effect only after a restart.
#[must_use]
pub fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    RESTART_KEYS.iter().filter(|own| (own.differs)(old, new)).map(|own| own.key).collect()
}
