//! The store itself: opening, sessions, views.

use std::sync::Arc;

use crate::backoff::Backoff;
use crate::check::{Report, check};
use crate::engine::{Engine, Outcome, Revision};
use crate::metrics::{Counters, Metrics};
use crate::prepare::prepare;
use crate::schema::Schema;
use crate::session::Session;
use crate::view::View;
use crate::{Error, Limits};

/// Tables over an engine. Cheap to clone; every clone is the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    engine: Arc<dyn Engine>,
    pub(crate) schema: Schema,
    pub(crate) limits: Limits,
    counters: Counters,
    backoff: Backoff,
}

impl Store {
    /// Opens what is in `engine`. A new one gets the tables of `schema`; one that has other tables is refused,
    /// and indexes that it lacks are built.
    pub async fn open(engine: impl Engine, schema: Schema) -> Result<Self, Error> {
        Self::open_within(Arc::new(engine), schema, Limits::default()).await
    }

    /// Opens with limits of one's own.
    pub async fn open_within(engine: Arc<dyn Engine>, schema: Schema, limits: Limits) -> Result<Self, Error> {
        prepare(engine.as_ref(), &schema, &limits).await?;
        let (counters, backoff) = (Counters::default(), Backoff::default());
        Ok(Self { shared: Arc::new(Shared { engine, schema, limits, counters, backoff }) })
    }

    /// Runs a session: all that `work` writes becomes durable at once, as if nothing else had happened since it
    /// began to read, or none of it does. An error from `work` takes everything back.
    ///
    /// When others changed what it read, `work` runs again from the start: it must have no other effects. A
    /// session whose future is dropped may still be committed.
    pub async fn session<T, E: From<Error>>(
        &self,
        work: impl AsyncFnMut(&mut Session) -> Result<T, E>,
    ) -> Result<T, E> {
        self.numbered_session(work).await.map(|(done, _)| done)
    }

    /// Runs a session and tells its place: sessions that wrote are as if they had run one after the other in the
    /// order of their numbers, and one that only read as if after the session with its number.
    pub async fn numbered_session<T, E: From<Error>>(
        &self,
        mut work: impl AsyncFnMut(&mut Session) -> Result<T, E>,
    ) -> Result<(T, Revision), E> {
        let Shared { limits, counters, backoff, .. } = self.shared.as_ref();
        Counters::add(&counters.sessions);
        for attempt in 1..=limits.attempts {
            if attempt > 1 {
                Counters::add(&counters.retries);
                backoff.before(attempt, limits.backoff).await;
            }
            let mut session = Session::new(self.look(true).await?);
            let done = work(&mut session).await;
            let view = session.into_view();
            if !view.is_stale() {
                let done = done?;
                match self.commit(view).await? {
                    Outcome::Committed(revision) => return Ok((done, revision)),
                    Outcome::Conflict => {}
                }
            }
            Counters::add(&counters.conflicts);
        }
        Counters::add(&counters.given_up);
        Err(Error::Conflict { attempts: limits.attempts }.into())
    }

    async fn commit(&self, view: View) -> Result<Outcome, Error> {
        // What was read is one state: reading it needs no check.
        if view.writes.is_empty() {
            return Ok(Outcome::Committed(view.revision()));
        }
        let outcome = self.shared.engine.commit(view.into_commit()).await?;
        if let Outcome::Committed(_) = outcome {
            Counters::add(&self.shared.counters.commits);
        }
        Ok(outcome)
    }

    /// The state as it is now, to read from.
    pub async fn view(&self) -> Result<View, Error> {
        self.look(false).await
    }

    async fn look(&self, session: bool) -> Result<View, Error> {
        Ok(View::new(Arc::clone(&self.shared), self.shared.engine.snapshot().await?, session))
    }

    /// Reads everything, and says where an index and its table disagree.
    pub async fn check(&self) -> Result<Report, Error> {
        check(&self.view().await?).await
    }

    /// Counts since the store was opened.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.counters.read(self.shared.engine.syncs())
    }

    /// Closes the store and its file, for every clone.
    pub async fn close(&self) -> Result<(), Error> {
        self.shared.engine.close().await
    }
}
