//! Runs a service: connections, faults on demand, and who served what.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::counts::Counts;
use crate::faults::{Fault, Faults};
use crate::http::{Body, Refusal, json_answer};

const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");
/// Connections at a time; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 10_000;
/// How long to leave the listener alone when accepting failed, which is when file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A service that can be run. Clones share their state, so a service that was stopped and is run again
/// comes back with what it had stored, as one with a disk does.
pub trait App: Clone + Send + Sync + 'static {
    /// What every service has.
    fn common(&self) -> &Common;
    /// Executes one request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// What every service has: a label, and counts of what it executed.
#[derive(Debug, Default)]
pub struct Common {
    label: Option<HeaderValue>,
    counts: Counts,
}

impl Common {
    /// With the label that answers carry as `X-Served-By`. A label that no header can carry is left out.
    #[must_use]
    pub fn new(label: Option<&str>) -> Common {
        let label = label.and_then(|label| HeaderValue::from_str(label).ok());
        Common { label, counts: Counts::default() }
    }

    /// What was executed.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Serves until `shutdown`, then closes every connection at once, as a process that is killed does.
pub async fn serve<A: App>(
    app: A,
    listener: TcpListener,
    faults: Faults,
    shutdown: impl Future<Output = ()>,
) {
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(app.clone(), stream, faults.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            _ = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn connection<A: App>(app: A, stream: TcpStream, faults: Faults) {
    // Without it the answers of a keep-alive connection can wait 40 ms for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let (app, faults) = (app.clone(), faults.clone());
        async move { Ok::<_, std::convert::Infallible>(respond(&app, &faults, request).await) }
    });
    // How a connection ends is the client's affair; nobody is left to tell.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond<A: App>(app: &A, faults: &Faults, request: Request<Incoming>) -> Response<Body> {
    let common = app.common();
    // The counts stay readable whatever is wrong, because a test reads them then.
    let mut response = if request.uri().path() == "/_counts" {
        counts(common, request.method())
    } else {
        common.counts.request();
        under_faults(app, faults, request).await
    };
    if let Some(label) = &common.label {
        response.headers_mut().insert(SERVED_BY, label.clone());
    }
    response
}

fn counts(common: &Common, method: &Method) -> Response<Body> {
    match *method {
        Method::GET | Method::HEAD => json_answer(StatusCode::OK, &common.counts.to_json()),
        _ => Refusal::not_allowed("GET, HEAD").into_response(),
    }
}

async fn under_faults<A: App>(app: &A, faults: &Faults, request: Request<Incoming>) -> Response<Body> {
    faults.hold(Fault::Hang).await;
    if faults.get() == Fault::Unavailable {
        let message = "this service was told to be unavailable";
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    let response = app.answer(request).await;
    if let Fault::Slow(delay) = faults.get() {
        tokio::time::sleep(delay).await;
    }
    faults.hold(Fault::Mute).await;
    response
}

/// A running service. Dropping it stops the service without waiting for the end.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    faults: Faults,
    /// The service ends when this goes.
    stop: oneshot::Sender<()>,
    /// Ends when the service has.
    done: oneshot::Receiver<()>,
}

impl Handle {
    /// Runs a service as a task of this runtime, on a loopback port of the system's choosing.
    pub async fn spawn<A: App>(app: A) -> io::Result<Handle> {
        Handle::spawn_on(app, TcpListener::bind(("127.0.0.1", 0)).await?)
    }

    /// Runs a service as a task of this runtime, on this listener.
    pub fn spawn_on<A: App>(app: A, listener: TcpListener) -> io::Result<Handle> {
        let (handle, shutdown, done) = Handle::new(listener.local_addr()?);
        let faults = handle.faults.clone();
        tokio::spawn(async move {
            serve(app, listener, faults, async { drop(shutdown.await) }).await;
            drop(done);
        });
        Ok(handle)
    }

    /// Runs a service on a thread and runtime of its own, at this address (port 0: the system chooses).
    pub fn spawn_thread<A: App>(app: A, bind: SocketAddr) -> io::Result<Handle> {
        let listener = std::net::TcpListener::bind(bind)?;
        listener.set_nonblocking(true)?;
        let (handle, shutdown, done) = Handle::new(listener.local_addr()?);
        let faults = handle.faults.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        std::thread::Builder::new().name(format!("sample {bind}")).spawn(move || {
            runtime.block_on(serve(app, listener, faults, async { drop(shutdown.await) }));
            // Connections to other services are tasks of the runtime: they end before we say so.
            drop(runtime);
            drop(done);
        })?;
        Ok(handle)
    }

    fn new(address: SocketAddr) -> (Handle, oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (stop, shutdown) = oneshot::channel();
        let (ended, done) = oneshot::channel();
        (Handle { address, faults: Faults::default(), stop, done }, shutdown, ended)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as `http://address:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The knob that makes it slow, broken or silent.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Stops it, as a process is killed: requests in progress get no answer. The port is free afterwards.
    pub async fn stop(self) {
        drop(self.stop);
        // The sender is never used: its end is the news.
        let _ = self.done.await;
    }
}
