//! Datagrams, exchanges of states, and what the link knows.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use link::Lane;
use scope::Site;
use sites::Event;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use super::super::SYNC;
use super::{Done, Driver, micros, named};

/// Time for an exchange of states.
const EXCHANGE: Duration = Duration::from_secs(10);
/// The state of ten thousand sites is a few megabytes.
const LONGEST: usize = 16 << 20;

impl Driver {
    pub(super) fn send(&self, to: &str, site: Option<&Site>, payload: &[u8]) {
        let Ok(sealed) = self.sealer.seal(site.map(Site::name), payload, outside::time_of_day()) else {
            return;
        };
        let datagrams = sealed.introduction.into_iter().chain([sealed.datagram]);
        self.send_sealed(to, datagrams.collect());
    }

    fn send_sealed(&self, to: &str, datagrams: Vec<Vec<u8>>) {
        let (socket, traffic) = (Rc::clone(&self.socket), Arc::clone(&self.inbox.traffic));
        let put = move |address: SocketAddr, datagrams: &[Vec<u8>]| {
            for datagram in datagrams {
                // One that does not leave is one that was lost on the way.
                if socket.try_send_to(datagram, address).is_ok() {
                    traffic.sent(datagram.len());
                }
            }
        };
        let way = self.resolver.borrow_mut().way(to, datagrams, Instant::now());
        if let Some((address, datagrams)) = way.send {
            put(address, &datagrams);
        }
        if !way.look_up {
            return;
        }
        let (name, resolver) = (to.to_owned(), Rc::clone(&self.resolver));
        spawn_local(async move {
            let address = tokio::net::lookup_host(&name).await.ok().and_then(|mut found| found.next());
            let learnt = resolver.borrow_mut().learn(&name, address, Instant::now());
            if let Some((address, datagrams)) = learnt {
                put(address, &datagrams);
            }
        });
    }

    pub(super) fn received(&mut self, bytes: &[u8], from: SocketAddr) {
        self.inbox.traffic.received(bytes.len());
        let now = outside::time_of_day();
        match self.opener.open(bytes, now) {
            Ok(opened) => {
                if opened.asks
                    && let Ok(introduction) = self.sealer.introduce(&opened.from, now)
                {
                    self.send_sealed(&from.to_string(), vec![introduction]);
                }
                let Some(site) = Site::new(&opened.from).filter(|_| !opened.payload.is_empty()) else {
                    return;
                };
                let identity = sites::Identity {
                    fingerprint: *opened.fingerprint.as_bytes(),
                    issued: micros(opened.issued),
                };
                self.has_met(&site, Some(from));
                self.on(Event::Datagram { from: site, identity, bytes: opened.payload });
            }
            Err(refusal) => {
                self.inbox.traffic.refused();
                if let Some(question) = refusal.ask().and_then(|site| self.sealer.ask(site, now)) {
                    self.send_sealed(&from.to_string(), vec![question]);
                }
            }
        }
    }

    /// Asks another site to exchange states. What comes of it comes as an event.
    pub(super) fn exchange(&self, with: Site, address: &str, bytes: Vec<u8>) {
        if self.peers.get(&with).is_none_or(|known| **known != *address) {
            let mut peers = self.peers.clone();
            peers.insert(with.clone(), address.into());
            self.pool.set_peers(named(&peers));
        }
        let (pool, done) = (self.pool.clone(), self.done.0.clone());
        spawn_local(async move {
            let exchange = async {
                let request = Request::post(SYNC).body(Full::new(Bytes::from(bytes))).ok()?;
                let answer = pool.send(with.name(), request, Lane::Small).await.ok()?;
                let success = answer.status().is_success();
                let body = Limited::new(answer.into_body(), LONGEST).collect().await.ok()?.to_bytes();
                success.then_some(body)
            };
            if let Ok(Some(bytes)) = timeout(EXCHANGE, exchange).await {
                let _ = done.send(Done::Synced { from: with, bytes });
            }
        });
    }

    pub(super) fn exchanged(&mut self, from: Site, bytes: &[u8]) {
        // The link proved the name; the identity is the one that we know under it. What it says of a newer one
        // is then hearsay, and it is greeted for it.
        let view = Arc::clone(&self.inbox.view.borrow());
        let seen = view.heard().and_then(|known| known.site(from.name()));
        if let Some(record) = seen.map(|seen| &seen.record) {
            let identity = sites::Identity { fingerprint: record.fingerprint, issued: record.issued };
            self.on(Event::Synced { from, identity, bytes: bytes.to_vec() });
        }
    }

    /// What the link knows of the peers that it is connected to, or would be.
    pub(super) fn look_at_link(&mut self) {
        let Some(mesh) = self.mesh.upgrade() else { return };
        let peers = mesh.peers();
        self.measured.retain(|site, _| peers.iter().any(|peer| peer.site == *site));
        let failing = peers.iter().filter(|peer| !peer.works).map(|peer| peer.site.clone()).collect();
        for site in std::mem::replace(&mut self.failing, failing) {
            if !peers.iter().any(|peer| peer.site == site) {
                self.on(Event::Unlinked { site });
            }
        }
        for peer in peers {
            // What it measured once counts once.
            if let Some(rtt) = peer.rtt.filter(|_| peer.works)
                && self.measured.insert(peer.site.clone(), rtt) != Some(rtt)
            {
                self.on(Event::Measured { site: peer.site.clone(), rtt });
            }
            self.on(Event::Reached { site: peer.site, works: peer.works });
        }
    }
}
