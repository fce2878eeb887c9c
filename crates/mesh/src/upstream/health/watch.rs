//! Asking targets whether they are alive.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Health;
use crate::upstream::connect::connect;
use crate::upstream::{BoxError, Settings, Target};

/// What is asked of each target, and how often.
#[derive(Clone, Debug)]
pub struct Check {
    /// A path, perhaps with a query.
    pub path: Uri,
    /// Between the starts of two checks.
    pub interval: Duration,
    /// For one check, from connecting to the head of the answer.
    pub timeout: Duration,
}

/// Checks every target for ever, each on its own so that a slow one delays no other. It runs on one core,
/// inside of a [`tokio::task::LocalSet`]; dropping it ends it.
///
/// An answer of 2xx or 3xx brings a target up at once; two failures in a row take it down.
pub async fn watch(targets: Vec<Target>, check: Check, health: Arc<Health>) {
    let mut tasks = JoinSet::new();
    for (index, target) in targets.into_iter().enumerate() {
        let (check, health) = (check.clone(), Arc::clone(&health));
        tasks.spawn_local(async move {
            let mut ticks = interval(check.interval.max(Duration::from_millis(1)));
            // After a pause of the machine one check says as much as all that were missed.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let status = timeout(check.timeout, ask(&target, &check)).await;
                let passed = |status: StatusCode| status.is_success() || status.is_redirection();
                health.checked(index, matches!(status, Ok(Ok(status)) if passed(status)));
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// On a connection of its own: a target that no longer accepts one is down, whatever its old ones do.
async fn ask(target: &Target, check: &Check) -> Result<StatusCode, BoxError> {
    let settings = Settings { connect_timeout: check.timeout, ..Settings::default() };
    let mut connection = connect(target, &Arc::default(), &settings).await.map_err(|(_, source)| source)?;
    let request = Request::get(check.path.clone())
        .header(HOST, format!("{}:{}", target.host, target.port))
        .header(USER_AGENT, "archipel")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    Ok(connection.sender.send_request(request).await?.status())
}
