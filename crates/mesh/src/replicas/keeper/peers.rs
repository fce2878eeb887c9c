//! Messages to other sites: batched, one exchange with each at a time.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use link::Lane;
use plan::{Knowledge, Reach};
use replica::{Body, Machine, Message, Meta, Operation};
use scope::Site;
use tokio::time::timeout;

use super::execute::{inline, is_storable};
use super::vault::{Table, Vault};
use crate::core::{Core, State};
use crate::replicas::request::Kept;
use crate::replicas::wire::{self, Envelope, Refusals};

/// Messages that wait for a site, at most. What is dropped comes again by the machine's own timer.
const WAITING: usize = 4096;
/// Messages in one envelope, at most, and bytes of writes among them; the receiver asks for the others.
const TOGETHER: usize = 256;
const INLINE_BYTES: usize = 4 << 20;
/// The longest exchange: the receiver makes everything durable first, and may fetch writes before.
const EXCHANGE: Duration = Duration::from_mins(1);
/// A body above this has a connection to itself on the link.
const SMALL: usize = 256 << 10;

/// What waits for each site.
#[derive(Default)]
pub(super) struct Outboxes(BTreeMap<Site, Outbox>);

#[derive(Default)]
struct Outbox {
    last: u64,
    waiting: BTreeMap<u64, Message>,
    /// Those about each resource, among them. Thousands may wait: none is looked for among all.
    about: HashMap<Meta, Vec<u64>>,
    /// On their way.
    sending: Option<Vec<Message>>,
}

impl Outbox {
    fn push(&mut self, message: Message) {
        let meta = about(&message);
        let own = self.about.entry(meta.clone()).or_default();
        // Of two confirmations of one resource the later says all.
        if matches!(message, Message::Confirm { .. }) {
            let waiting = &mut self.waiting;
            own.retain(|number| {
                let is_older = matches!(waiting.get(number), Some(Message::Confirm { .. }));
                if is_older {
                    waiting.remove(number);
                }
                !is_older
            });
        }
        // A timer that runs out while all is slow adds nothing to what is slow.
        let waits = own.iter().any(|number| self.waiting.get(number) == Some(&message));
        let on_its_way = waits || self.sending.iter().flatten().any(|other| *other == message);
        if !on_its_way && self.waiting.len() < WAITING {
            self.last = self.last.wrapping_add(1);
            own.push(self.last);
            self.waiting.insert(self.last, message);
        }
        if own.is_empty() {
            self.about.remove(&meta);
        }
    }

    fn pop(&mut self) -> Option<Message> {
        let (number, message) = self.waiting.pop_first()?;
        let meta = about(&message);
        let own = self.about.get_mut(&meta)?;
        own.retain(|other| *other != number);
        if own.is_empty() {
            self.about.remove(&meta);
        }
        Some(message)
    }
}

/// The resource that a message is about; of none, or of several, a name that none has.
fn about(message: &Message) -> Meta {
    let own = message.map().map(|map| &map.meta);
    let own = own.or(match message {
        Message::Stands { resource, .. } | Message::Differs { resource } => Some(resource),
        _ => None,
    });
    own.cloned().unwrap_or_else(|| Meta("".into()))
}

impl Outboxes {
    /// Adds a message, and gives those that can be sent now.
    pub(super) fn add(&mut self, to: &Site, message: Message) -> Option<Vec<Message>> {
        self.0.entry(to.clone()).or_default().push(message);
        self.next(to)
    }

    /// The next that can be sent: none while others are on their way.
    pub(super) fn next(&mut self, to: &Site) -> Option<Vec<Message>> {
        let outbox =
            self.0.get_mut(to).filter(|outbox| outbox.sending.is_none() && !outbox.waiting.is_empty())?;
        let next: Vec<_> = std::iter::from_fn(|| outbox.pop()).take(TOGETHER).collect();
        outbox.sending = Some(next.clone());
        Some(next)
    }

    /// An exchange is over. After one that failed nothing waits: the machine sends again what counts.
    pub(super) fn over(&mut self, to: &Site, arrived: bool) {
        if let Some(outbox) = self.0.get_mut(to) {
            outbox.sending = None;
            if !arrived {
                outbox.waiting.clear();
                outbox.about.clear();
            }
        }
    }
}

/// Whether there is a point in sending something to a site.
pub(super) fn is_up(state: &State, site: &Site) -> bool {
    let failing =
        || state.pool.as_ref().and_then(|pool| pool.state(site.name())).is_none_or(|peer| peer.failing);
    match state.reach(site) {
        Reach::Yes => true,
        Reach::Unknown => !failing(),
        Reach::Unreachable | Reach::Quarantined => false,
    }
}

/// How an exchange with a site ended.
pub(super) struct Ended {
    pub(super) arrived: bool,
    /// The resources that it was about, if it arrived, and what the site refused of each.
    pub(super) refused: Vec<(Meta, Option<u16>)>,
}

/// Sends messages, with the writes that they name as far as they are short.
pub(super) async fn send(core: Rc<Core>, vault: Vault, to: Site, messages: Vec<Message>) -> Ended {
    let metas: Vec<Meta> = messages.iter().filter_map(|message| Some(message.map()?.meta.clone())).collect();
    let mut envelope = Envelope::default();
    let mut bytes = 0;
    for message in messages {
        let mut writes = Vec::new();
        for Body(id) in Machine::bodies(&message) {
            if bytes >= INLINE_BYTES {
                break;
            }
            if let Ok(Some(kept)) = vault.get::<Kept>(Table::Kept, id.as_bytes()).await {
                bytes += inline(&kept);
                writes.push(kept);
            }
        }
        envelope.messages.push((message.bytes(), writes));
    }
    let body = postcard::to_allocvec(&envelope).unwrap_or_default();
    let told = exchange(&core, &to, Method::POST, wire::MESSAGES, body.into()).await;
    let Some((_, body)) = told.filter(|(status, _)| status.is_success()) else {
        return Ended { arrived: false, refused: Vec::new() };
    };
    // A site that says nothing refuses nothing.
    let refusals: Refusals = postcard::from_bytes(&body).unwrap_or_default();
    let of = |meta: &Meta| refusals.iter().find(|(own, _)| own == meta).map(|(_, status)| *status);
    let refused = metas.into_iter().map(|meta| (of(&meta), meta)).map(|(status, meta)| (meta, status));
    Ended { arrived: true, refused: refused.collect() }
}

/// The bodies that a message names, but for those of operations that are known.
pub(super) fn bodies(message: &Message, is_new: impl Fn(&Operation) -> bool) -> Vec<Body> {
    match message {
        Message::Operations { operations, .. } => {
            operations.iter().filter(|op| is_new(op)).filter_map(|op| op.body.clone()).collect()
        }
        message => Machine::bodies(message),
    }
}

/// Asks another site for a write: nothing where it has none.
pub(super) async fn fetch(core: &Core, from: &Site, id: &str) -> Option<Option<Kept>> {
    let path = format!("{}{id}", wire::WRITES);
    let (status, body) = exchange(core, from, Method::GET, &path, Bytes::new()).await?;
    if status == StatusCode::NOT_FOUND {
        return Some(None);
    }
    let kept: Kept = postcard::from_bytes(&body).ok().filter(|_| status.is_success())?;
    (*kept.id == *id && is_storable(&kept)).then_some(Some(kept))
}

/// One question to another site's keeper, and its answer.
pub(super) async fn exchange(
    core: &Core,
    to: &Site,
    method: Method,
    path: &str,
    body: Bytes,
) -> Option<(StatusCode, Bytes)> {
    let state = core.state();
    let pool = state.pool.clone()?;
    if matches!(state.reach(to), Reach::Quarantined) {
        return None;
    }
    // What is asked for may be long; messages are answered by a word.
    let small = matches!(path, wire::MESSAGES | wire::RESERVATIONS) && body.len() <= SMALL;
    let lane = if small { Lane::Small } else { Lane::Long };
    let request = Request::builder().method(method).uri(path).body(Full::new(body)).ok()?;
    let exchange = async {
        let answer = pool.send(to.name(), request, lane).await.ok()?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), wire::LONGEST).collect().await.ok()?.to_bytes();
        Some((status, body))
    };
    timeout(EXCHANGE, exchange).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use replica::{Epoch, Level, ReplicaMap, Stamp, Version};

    use super::*;

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    fn map(name: &str) -> ReplicaMap {
        let sites = ["A", "B"].map(site).into();
        let stamp = Stamp { wall_ms: 1, logical: 0 };
        ReplicaMap::new(Meta(name.into()), Level::Eventual, false, &sites, stamp, &site("A"))
    }

    fn confirm(name: &str, number: u64) -> Message {
        let epoch = Epoch { number, draw: 0 };
        Message::Confirm {
            map: map(name),
            epoch,
            number: 0,
            known: Version::default(),
            done: Version::default(),
        }
    }

    fn behind(name: &str) -> Message {
        Message::Behind { map: map(name), known: Version::default() }
    }

    #[test]
    fn what_waits_is_told_once_in_its_order_and_the_last_confirmation_only() {
        let (mut boxes, b) = (Outboxes::default(), site("B"));
        assert_eq!(boxes.add(&b, behind("first")), Some(vec![behind("first")]));
        let later =
            [confirm("x", 1), behind("x"), confirm("y", 1), behind("x"), confirm("x", 2), behind("first")];
        for message in later {
            assert_eq!(boxes.add(&b, message), None, "one exchange at a time");
        }
        boxes.over(&b, true);
        assert_eq!(boxes.next(&b), Some(vec![behind("x"), confirm("y", 1), confirm("x", 2)]));
        boxes.over(&b, true);
        assert_eq!(boxes.next(&b), None);
        assert!(boxes.0.values().all(|outbox| outbox.about.is_empty()));
    }

    #[test]
    fn no_more_wait_for_a_site_than_may() {
        let (mut boxes, b) = (Outboxes::default(), site("B"));
        boxes.add(&b, behind("first"));
        for number in 0..2 * WAITING {
            boxes.add(&b, behind(&number.to_string()));
        }
        assert_eq!(boxes.0.values().map(|outbox| outbox.waiting.len()).sum::<usize>(), WAITING);
        boxes.over(&b, false);
        assert_eq!(boxes.next(&b), None, "the machine sends again what counts");
        assert!(boxes.0.values().all(|outbox| outbox.about.is_empty()));
    }
}
