//! Long bodies from other sites into this one's spool.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use link::{Lane, Received};
use plan::{Knowledge, Reach};
use scope::Site;
use spool::{Id, Spool, Stored, Writer};
use tokio::time::{sleep, timeout};

use crate::core::Core;
use crate::replicas::wire;

/// Every source is asked so often without a byte of it before this is given up. Whoever needs the body asks again.
const ROUNDS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(250);

/// What of a transfer is here, of how much; shared with who shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) done: Rc<Cell<u64>>,
    pub(super) total: Rc<Cell<Option<u64>>>,
}

/// Why a piece of a body did not come.
enum Broken {
    /// The source has not got it, or cannot be reached.
    There,
    /// The disk here does not take it.
    Here,
}

/// Pulls a body from whichever of these sites has it. One that is still coming in there is followed; one that breaks off
/// goes on where it was, at the next site.
pub(super) async fn body(
    core: &Core,
    spool: &Spool,
    id: Id,
    length: Option<u64>,
    sources: &[Site],
    progress: &Progress,
) -> Option<Stored> {
    let mut writer = spool.writer_as(id, length).ok()?;
    progress.total.set(length);
    let mut rounds = 0;
    while rounds < ROUNDS {
        let before = writer.written();
        for source in sources {
            match some(core, source, id, &mut writer, progress).await {
                Ok(()) => return writer.finish().await.ok(),
                Err(Broken::Here) => return None,
                Err(Broken::There) => {}
            }
        }
        rounds = if writer.written() > before { 0 } else { rounds + 1 };
        sleep(PAUSE).await;
    }
    None
}

/// The rest of a body, or some of it.
async fn some(
    core: &Core,
    source: &Site,
    id: Id,
    writer: &mut Writer,
    progress: &Progress,
) -> Result<(), Broken> {
    let path = format!("{}{id}?from={}", wire::BODIES, writer.written());
    let answer = ask(core, source, Method::GET, &path, Bytes::new()).await.ok_or(Broken::There)?;
    if answer.status() != StatusCode::OK {
        return Err(Broken::There);
    }
    write(core, answer, writer, progress).await
}

/// A part of a resource, from the service of another site. `Some(None)`: it has none.
pub(super) async fn part(
    core: &Core,
    spool: &Spool,
    source: &Site,
    asked: Bytes,
    progress: &Progress,
) -> Option<Option<Stored>> {
    let answer = ask(core, source, Method::POST, wire::PART, asked).await?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NO_CONTENT => return Some(None),
        _ => return None,
    }
    stored(core, spool, answer, progress).await.map(Some)
}

/// Asks for the content that another site's service has at a path, as it comes, with its media type. `Some(None)`: it has none.
pub(super) async fn content(core: &Core, source: &Site, asked: Bytes) -> Option<Option<Response<Received>>> {
    let answer = ask(core, source, Method::POST, wire::CONTENT, asked).await?;
    match answer.status() {
        StatusCode::OK => Some(Some(answer)),
        StatusCode::NO_CONTENT => Some(None),
        _ => None,
    }
}

/// Takes what comes into the spool.
pub(super) async fn stored(
    core: &Core,
    spool: &Spool,
    answer: Response<Received>,
    progress: &Progress,
) -> Option<Stored> {
    let length = http_body::Body::size_hint(answer.body()).exact();
    progress.total.set(length);
    let mut writer = spool.writer(length).ok()?;
    write(core, answer, &mut writer, progress).await.ok()?;
    writer.finish().await.ok()
}

async fn ask(
    core: &Core,
    source: &Site,
    method: Method,
    path: &str,
    body: Bytes,
) -> Option<Response<Received>> {
    let state = core.state();
    let pool = state.pool.clone()?;
    if matches!(state.reach(source), Reach::Quarantined | Reach::Unreachable) {
        return None;
    }
    let request = Request::builder().method(method).uri(path).body(Full::new(body)).ok()?;
    let patience = state.settings().timeouts.peer_response;
    timeout(patience, pool.send(source.name(), request, Lane::Long)).await.ok()?.ok()
}

async fn write(
    core: &Core,
    answer: Response<Received>,
    writer: &mut Writer,
    progress: &Progress,
) -> Result<(), Broken> {
    // Longer than a client may pause: then its own site gives up before.
    let pause = core.state().settings().timeouts.body_idle.saturating_mul(2);
    let mut body = answer.into_body();
    loop {
        let frame = timeout(pause, body.frame()).await.map_err(|_| Broken::There)?;
        let Some(frame) = frame else { return Ok(()) };
        if let Ok(bytes) = frame.map_err(|_| Broken::There)?.into_data() {
            writer.push(bytes).await.map_err(|_| Broken::Here)?;
            progress.done.set(writer.written());
        }
    }
}
