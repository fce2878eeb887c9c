//! How often and how long. The defaults are for sites around a planet, up to some thousands.

use std::time::Duration;

use scope::Dialect;

/// What can be set. Times that grow with the number of sites are for up to 1,000.
#[derive(Clone, Debug)]
pub struct Config {
    /// The dialect that zones are read with.
    pub dialect: Dialect,
    /// A site probes another this often. A crash goes unseen for one such time on average.
    pub probe_every: Duration,
    /// The same, until a new site knows where it is.
    pub probe_at_first_every: Duration,
    /// How long to wait for an answer from a site whose distance is unknown.
    pub direct_timeout: Duration,
    /// How long to wait, after that, for the sites that were asked to probe.
    pub indirect_timeout: Duration,
    /// How many sites are asked to probe.
    pub helpers: usize,
    /// How long a suspected site has to object, once enough others suspect it too. News is everywhere in
    /// under a second, and so is the objection.
    pub suspicion_least: Duration,
    /// The same, as long as nobody else suspects it.
    pub suspicion_most: Duration,
    /// How many others are enough.
    pub confirmations: usize,
    /// How many sites are told at once what is new.
    pub fanout: usize,
    /// The same, by the site that knew it first.
    pub fanout_first: usize,
    /// The time until the next are told.
    pub gossip_every: Duration,
    /// Datagrams of news in a second, more than which wait.
    pub news_per_second: u32,
    /// A site exchanges its state with another this often.
    pub sync_every: Duration,
    /// Dead sites are looked for this often.
    pub look_for_dead_every: Duration,
    /// Addresses to join by that are no site's are tried this often once there are peers.
    pub seeds_every: Duration,
    /// Dead sites, and those that left, are forgotten after this time. A split that lasts longer needs a
    /// new join.
    pub forget_after: Duration,
    /// A site tells this often how it moved and what its metrics are. It is longer if there are many.
    pub vitals_every: Duration,
    /// More sites than this are not let in.
    pub members: usize,
    /// More zones than this, removed ones included, are not defined.
    pub zones: usize,
    /// Stamps of zones and quarantines that are further ahead of this site's clock are refused.
    pub clock_skew: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let hour = Duration::from_hours(1);
        Config {
            dialect: Dialect::default(),
            probe_every: Duration::from_secs(1),
            probe_at_first_every: Duration::from_millis(200),
            direct_timeout: Duration::from_millis(500),
            indirect_timeout: Duration::from_millis(800),
            helpers: 3,
            suspicion_least: Duration::from_secs(2),
            suspicion_most: Duration::from_secs(5),
            confirmations: 2,
            fanout: 4,
            fanout_first: 16,
            gossip_every: Duration::from_millis(120),
            news_per_second: 50,
            sync_every: Duration::from_secs(30),
            look_for_dead_every: Duration::from_secs(5),
            seeds_every: Duration::from_mins(1),
            forget_after: 72 * hour,
            vitals_every: Duration::from_secs(10),
            members: 16_384,
            zones: 1024,
            clock_skew: 24 * hour,
        }
    }
}
