//! The body of a write: short ones are in memory, and in the write's record; long ones go to the spool as they come, and
//! from there to the other replicas at the same time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;
use replica::Meta;
use scope::Site;
use spool::{Id, Spool, Stored};
use tokio::sync::mpsc::UnboundedSender;

use super::{Content, Order, Replicas};
use crate::BoxError;
use crate::body::LegBody;
use crate::problem::Problem;

/// What is to become of a body that is too long for a record.
pub(crate) enum Long {
    /// It is spooled here, and the others of these sites are told that it comes.
    Spooled { sites: BTreeSet<Site>, meta: Option<Meta> },
    /// It goes through to another site, which spools it.
    Passed,
    /// It is refused: somebody has to read it as a whole.
    Refused,
}

/// A body that is coming in here, for the other sites of its resource.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    pub(crate) id: Id,
    pub(crate) length: Option<u64>,
    /// Of what, where that has a name already.
    pub(crate) meta: Option<Meta>,
    pub(crate) sites: BTreeSet<Site>,
}

/// The body of a write.
pub(crate) enum Taken {
    Inline(Bytes),
    Spooled(Upload),
    /// Sent once, if it was not yet.
    Passing(Option<LegBody>),
}

/// A body in the spool. Unless a write that was recorded names it, it goes with this.
pub(crate) struct Upload {
    spool: Spool,
    stored: Stored,
    _lease: Lease,
}

/// Dropped, it tells the keeper that whoever took the body in is done with it.
struct Lease {
    id: Id,
    orders: UnboundedSender<Order>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::LetGo(self.id));
    }
}

impl Taken {
    /// What can be looked at.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Taken::Inline(bytes) => bytes,
            Taken::Spooled(_) | Taken::Passing(_) => &[],
        }
    }

    /// The same, to be handed on.
    pub(crate) fn inline(&self) -> Bytes {
        match self {
            Taken::Inline(bytes) => bytes.clone(),
            Taken::Spooled(_) | Taken::Passing(_) => Bytes::new(),
        }
    }

    /// As it is kept, under this name where it has none yet.
    pub(crate) fn kept(&self, name: impl FnOnce() -> Arc<str>) -> (Arc<str>, Content) {
        match self {
            Taken::Spooled(upload) => {
                let Stored { id, len, sha256 } = upload.stored;
                (id.to_string().into(), Content::Spooled { length: len, digest: sha256 })
            }
            Taken::Inline(_) | Taken::Passing(_) => (name(), Content::Inline(self.bytes().to_vec())),
        }
    }

    /// For a request to another site. `None`: it went to one already.
    pub(crate) fn leg(&mut self, pause: std::time::Duration) -> Option<LegBody> {
        match self {
            Taken::Inline(bytes) => Some(LegBody::Full(bytes.clone())),
            Taken::Spooled(upload) => {
                let reader = upload.spool.reader(upload.stored.id, 0).ok()?;
                Some(LegBody::stored(reader, pause))
            }
            Taken::Passing(body) => body.take(),
        }
    }
}

/// Takes a body in: at most so many bytes in memory.
pub(crate) async fn take(
    mut body: LegBody,
    most: usize,
    long: Long,
    replicas: &Replicas,
) -> Result<Taken, Problem> {
    let said = body.size_hint().exact();
    let mut read = VecDeque::new();
    // Of one that says that it is long nothing is read before there is room for it.
    if said.is_none_or(|bytes| bytes <= most as u64) && read_up_to(&mut body, most, &mut read).await? {
        let short = match (read.pop_front(), read.is_empty()) {
            (Some(only), true) => only,
            (first, _) => first.into_iter().chain(read).collect::<Vec<_>>().concat().into(),
        };
        return Ok(Taken::Inline(short));
    }
    match long {
        Long::Refused => Err(too_long(most)),
        Long::Passed if read.is_empty() => Ok(Taken::Passing(Some(body))),
        Long::Passed => Ok(Taken::Passing(Some(LegBody::After(read, Box::new(body))))),
        Long::Spooled { sites, meta } => {
            let spool = replicas.spool.get().ok_or_else(|| no_room(&spool::Error::Closed))?.clone();
            let mut writer = spool.writer(said).map_err(|error| no_room(&error))?;
            let lease = Lease { id: writer.id(), orders: replicas.orders.clone() };
            let coming = Coming { id: writer.id(), length: said, meta, sites };
            let _ = replicas.orders.send(Order::Coming(coming));
            let mut body = LegBody::After(read, Box::new(body));
            while let Some(bytes) = next(&mut body).await? {
                writer.push(bytes).await.map_err(|error| no_room(&error))?;
            }
            let stored = writer.finish().await.map_err(|error| no_room(&error))?;
            Ok(Taken::Spooled(Upload { spool, stored, _lease: lease }))
        }
    }
}

/// Reads until there is more than this, or the end: whether that came first.
async fn read_up_to(body: &mut LegBody, most: usize, read: &mut VecDeque<Bytes>) -> Result<bool, Problem> {
    let mut bytes = 0;
    while bytes <= most {
        let Some(more) = next(body).await? else { return Ok(true) };
        bytes += more.len();
        read.push_back(more);
    }
    Ok(false)
}

/// The next bytes; none at the end. Trailers are not kept.
async fn next(body: &mut LegBody) -> Result<Option<Bytes>, Problem> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            Some(Err(error)) => return Err(broken(body, &error)),
        }
    }
}

fn broken(body: &LegBody, error: &BoxError) -> Problem {
    let said = body.inflow().and_then(|inflow| inflow.problem());
    said.unwrap_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The body cannot be read").detail(error.to_string())
    })
}

pub(crate) fn too_long(most: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body-too-long",
        "The body is too long to be kept for other replicas",
    )
    .detail(format!(
        "a patch or a JSON document can have at most {most} bytes, as it is read as a whole: see `inline_bytes` in \
         [replication]"
    ))
}

/// Why a body cannot be spooled: nothing is the client's fault.
fn no_room(error: &spool::Error) -> Problem {
    match error {
        spool::Error::WrongLength { .. } => {
            Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The body cannot be read")
                .detail(error.to_string())
        }
        spool::Error::OverQuota { .. } | spool::Error::Full | spool::Error::TooLarge => Problem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "no-room",
            "There is no room for a body that has to be kept for other replicas; nothing was executed",
        )
        .detail(error.to_string())
        .unsent(),
        _ => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unreachable",
            "The body cannot be kept for other replicas; nothing was executed",
        )
        .detail(error.to_string())
        .unsent(),
    }
}
