//! The membership of this site: `sites`' machine, driven over signed datagrams and the link.
//!
//! [`Members`] is the handle, for the admin socket and for questions of other sites. The machine runs in a
//! thread of its own (`driver`), so that neither requests nor operators wait for it, nor it for them.

mod driver;
mod kept;
mod metrics;
mod outward;
mod resolve;
pub mod show;
mod view;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use link::Identity;
use mesh::{Backstage, Mesh, Question, Reply};
use scope::Site;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::config::Config;
use crate::identity::IdentityInForce;
pub use driver::Start;
pub use kept::revoked;
pub use view::View;

/// Where sites exchange their states.
const SYNC: &str = "/v1/exchange";

/// What an administrator orders.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Meet other sites through these links.
    Join(Vec<String>),
    /// Say goodbye to them.
    Leave,
    /// Define a zone at every site, or forget it.
    Zone {
        /// Its name.
        name: String,
        /// What it stands for.
        text: Option<String>,
    },
    /// Keep a site visible, but unused; or use it again.
    Quarantine {
        /// The site.
        site: String,
        /// Whether.
        on: bool,
    },
    /// Shut a site's identities out: a statement that the operator's authority signed.
    Revoke {
        /// The signed bytes.
        statement: Vec<u8>,
        /// Also if the site is not known, or this one.
        force: bool,
    },
    /// Change this site's metrics, or forget some.
    Metrics(BTreeMap<String, Option<f64>>),
}

/// What the thread is told.
enum Command {
    Order(Order, oneshot::Sender<Result<(), String>>),
    /// The site that answers at one of these addresses from now on, once one does.
    Meet(Vec<SocketAddr>, oneshot::Sender<Site>),
    /// Another site's state, and where to put ours.
    Sync {
        question: Question,
        reply: oneshot::Sender<Option<Vec<u8>>>,
    },
    /// The file was read again.
    Reload(Box<Config>, Option<Arc<Identity>>),
    Attach(Weak<Mesh>),
    Stop(oneshot::Sender<()>),
}

/// Bytes and datagrams on the wire, by direction.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: (AtomicU64, AtomicU64),
    received: (AtomicU64, AtomicU64),
    refused: AtomicU64,
}

impl Traffic {
    fn sent(&self, bytes: usize) {
        count(&self.sent, bytes);
    }

    fn received(&self, bytes: usize) {
        count(&self.received, bytes);
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

fn count((datagrams, total): &(AtomicU64, AtomicU64), bytes: usize) {
    datagrams.fetch_add(1, Ordering::Relaxed);
    total.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// The sites that this one knows. Clones are the same.
#[derive(Clone, Debug)]
pub struct Members {
    commands: UnboundedSender<Command>,
    view: watch::Receiver<Arc<View>>,
    traffic: Arc<Traffic>,
    identity: IdentityInForce,
}

/// What the thread is made of, until it starts.
pub struct Inbox {
    commands: UnboundedReceiver<Command>,
    view: watch::Sender<Arc<View>>,
    traffic: Arc<Traffic>,
}

impl Members {
    /// The sites of a configuration, until the membership has [started](Inbox::start).
    #[must_use]
    pub fn new(config: &Config) -> (Members, Inbox) {
        let (commands, received) = unbounded_channel();
        let (publish, view) = watch::channel(Arc::new(View::of_file(config)));
        let traffic = Arc::<Traffic>::default();
        let inbox = Inbox { commands: received, view: publish, traffic: Arc::clone(&traffic) };
        (Members { commands, view, traffic, identity: IdentityInForce::default() }, inbox)
    }

    /// The sites as they are known now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// Who this site is to the others.
    #[must_use]
    pub fn identity(&self) -> &IdentityInForce {
        &self.identity
    }

    /// What went over the wire.
    #[must_use]
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Carries out an order; the other sites hear of it meanwhile.
    pub async fn order(&self, order: Order) -> Result<(), String> {
        let (reply, outcome) = oneshot::channel();
        let _ = self.commands.send(Command::Order(order, reply));
        outcome.await.unwrap_or_else(|_| {
            Err("this site has no link to others: there is no [link] in its configuration".to_owned())
        })
    }

    /// Waits for a site that answers at one of these addresses from now on, or that is met meanwhile. Nothing, if none does
    /// within `patience`.
    pub fn met(
        &self,
        addresses: Vec<SocketAddr>,
        patience: Duration,
    ) -> impl Future<Output = Option<Site>> + use<> {
        let (reply, met) = oneshot::channel();
        // Sent now, not when it is waited for: an order that follows is carried out after it.
        let _ = self.commands.send(Command::Meet(addresses, reply));
        async move { tokio::time::timeout(patience, met).await.ok()?.ok() }
    }

    /// Keeps this mesh's view of the sites up to date from now on.
    pub fn attach(&self, mesh: &Arc<Mesh>) {
        let _ = self.commands.send(Command::Attach(Arc::downgrade(mesh)));
    }

    /// Takes on a configuration that was read again, and the identity that it names.
    pub fn reload(&self, config: Config, identity: Option<Arc<Identity>>) {
        let _ = self.commands.send(Command::Reload(Box::new(config), identity));
    }

    /// Ends it, within a second or so. Without a goodbye: a site that stops is still a site, and a list that
    /// lacks it must say so.
    pub fn stop(&self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let (done, ended) = std::sync::mpsc::channel();
        let (reply, stopped) = oneshot::channel();
        let _ = self.commands.send(Command::Stop(reply));
        std::thread::spawn(move || {
            let _ = stopped.blocking_recv();
            let _ = done.send(());
        });
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// Other sites exchange their state with ours, and may ask what we know.
impl Backstage for Members {
    fn answer(&self, question: Question) -> Reply {
        let members = self.clone();
        Box::pin(async move {
            match (&question.method, question.path.as_str()) {
                (&Method::POST, SYNC) => {
                    let (reply, answer) = oneshot::channel();
                    let _ = members.commands.send(Command::Sync { question, reply });
                    match answer.await.ok().flatten() {
                        Some(bytes) => (StatusCode::OK, bytes.into()),
                        None => (StatusCode::FORBIDDEN, Bytes::new()),
                    }
                }
                (&Method::GET, "/v1/sites") => {
                    (StatusCode::OK, show::sites(&members.snapshot(), &[]).to_string().into())
                }
                (&Method::GET, "/v1/zones") => {
                    (StatusCode::OK, show::zones(&members.snapshot()).to_string().into())
                }
                _ => (StatusCode::NOT_FOUND, Bytes::new()),
            }
        })
    }
}
