//! Telling somebody that every replica has executed something.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{Request, Uri};
use serde_json::json;
use tokio::task::spawn_local;

use super::Keeper;
use super::book::Finished;
use crate::body::LegBody;
use crate::settings::Webhook;
use crate::upstream::{Health, Settings, Upstreams};

/// The pauses before it is told again. After the last nobody is told: whoever must know asks.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_mins(2)];
/// For an answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Keeper {
    /// Tells the webhook, if there is one. Nothing waits for it, and nobody is told once this process has ended.
    pub(super) fn tell_completed(&self, finished: &Finished) {
        let state = self.core.state();
        let replication = state.settings().replication.as_ref();
        let Some(webhook) = replication.and_then(|own| own.webhook.clone()) else { return };
        let sites: Vec<&str> = finished.sites.iter().map(scope::Site::name).collect();
        let operation = finished.op.to_string();
        let document = json!({
            "operation": operation,
            "resource": &*finished.meta.0,
            "status": finished.status,
            "sites": sites,
        });
        let (core, body) = (Rc::clone(&self.core), Bytes::from(document.to_string()));
        spawn_local(async move {
            for pause in PAUSES.into_iter().map(Some).chain([None]) {
                if tell(&webhook, body.clone()).await {
                    return;
                }
                let Some(pause) = pause else { break };
                tokio::time::sleep(pause).await;
            }
            core.shared.audit.write(&json!({ "webhook": "was not told", "operation": operation }));
        });
    }
}

async fn tell(webhook: &Webhook, body: Bytes) -> bool {
    let target = vec![webhook.target.clone()];
    let upstreams = Upstreams::new(target, Settings::default(), Arc::new(Health::new(1)));
    let request = Request::post(Uri::from(webhook.path.clone()))
        .header(HOST, format!("{}:{}", webhook.target.host, webhook.target.port))
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, body.len());
    let Ok(request) = request.body(LegBody::Full(body)) else { return true };
    let answer = tokio::time::timeout(PATIENCE, upstreams.send(request)).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status().is_success()))
}
