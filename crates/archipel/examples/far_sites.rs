//! Many sites in one light process, for `./bench merge`: each answers every leg with one list, after a while.
//!
//! `far_sites DIR SITES ITEMS DELAY_MS` makes an authority and the identity of a site `Here` in DIR, and then
//! prints a line `Far1 127.0.0.1:40001` for each site. It ends when its standard input does.

use std::convert::Infallible;
use std::error::Error;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use link::{Authority, Drain, Limits, Revoked, Server, ServerTls};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, sites, items, delay_ms] = arguments.as_slice() else {
        return Err("usage: far_sites DIR SITES ITEMS DELAY_MS".into());
    };
    let delay = Duration::from_millis(delay_ms.parse()?);
    let authority = Authority::create("bench")?;
    authority.issue("Here")?.save(&Path::new(directory).join("identity"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        for number in 1..=sites.parse::<usize>()? {
            let name = format!("Far{number}");
            let tls = ServerTls::new(&authority.issue(&name)?, &Revoked::default())?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            writeln!(std::io::stdout(), "{name} {}", listener.local_addr()?)?;
            let list = self::items(&name, items.parse()?);
            let (drain, draining) = Drain::new();
            tokio::task::spawn_local(async move {
                // Kept for as long as the task runs: nothing is ever drained here.
                let _drain = drain;
                let server = Server::new(tls, Limits::default());
                server.serve(listener, draining, move |_, _| answer(list.clone(), delay)).await;
            });
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        std::process::exit(0);
    });
    runtime.block_on(local);
    Ok(())
}

/// Says in its first item how long the site had it: all of them share one core here, and wait for each other.
async fn answer(items: Bytes, delay: Duration) -> http::Response<BoxBody<Bytes, Infallible>> {
    let began = Instant::now();
    tokio::time::sleep(delay).await;
    let took = began.elapsed().as_micros();
    let mut list = format!("{{\"images\":[{{\"id\":\"took\",\"took_us\":{took}}}").into_bytes();
    list.extend_from_slice(&items);
    list.extend_from_slice(b"]}");
    let mut response = http::Response::new(BoxBody::new(Full::new(Bytes::from(list))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// As the image service writes them.
fn items(site: &str, items: usize) -> Bytes {
    let item = |number| {
        format!(
            ",{{\"id\":\"{number:08x}-0000-4000-8000-000000000000\",\"name\":\"{site}-{number}\",\"size\":1234567,\
             \"digest\":\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\
             \"status\":\"active\",\"created_at\":\"2026-11-15T00:00:00Z\"}}"
        )
    };
    (1..items).map(item).collect::<String>().into()
}
