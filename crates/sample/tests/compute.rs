//! The `compute` service, with `image` and with services that are no `image` at all.

// Clippy knows `#[test]` functions, not the functions that they share.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use sample::compute::{Compute, Settings};
use sample::{Fault, Handle, Write, image};
use serde_json::json;
use support::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const ID: &str = "0d3f6f5e-8f6b-4a55-9d5e-2f4f0c4b7a11";

async fn compute_on(image_url: &str) -> (Compute, Handle, Client) {
    let compute = Compute::new(Settings::new(image_url).unwrap());
    let handle = Handle::spawn(compute.clone()).await.unwrap();
    let client = Client::connect(handle.address()).await;
    (compute, handle, client)
}

async fn image() -> (Handle, Client) {
    let handle = Handle::spawn(image::Image::new(&image::Settings::default())).await.unwrap();
    let client = Client::connect(handle.address()).await;
    (handle, client)
}

fn order(name: &str, image: &str) -> String {
    json!({ "name": name, "image": image }).to_string()
}

/// A service that tells what it was asked, and answers a record and then a file.
async fn recorder(
    record: &'static str,
    file: &'static str,
) -> (String, mpsc::UnboundedReceiver<(String, HeaderMap)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let path = request.uri().path().to_owned();
                let body = if path.ends_with("/file") { file } else { record };
                let _ = tell.send((path, request.headers().clone()));
                // One request to a connection, so that the next needs another.
                let answer = Response::builder().header("connection", "close");
                async move { Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(body))).unwrap()) }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (url, told)
}

#[tokio::test]
async fn a_server_is_made_from_an_image_and_keeps_its_digest() {
    let (image, mut images) = image().await;
    let id = images.make_image("debian", vec![9; 500_000]).await;
    let digest = images.send("GET", &format!("/images/{id}"), "").await.text("/digest");
    let (compute, _handle, mut client) = compute_on(&image.url()).await;

    let made = client.send("POST", "/servers", order("web", &id)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let path = format!("/servers/{}", made.text("/id"));
    assert_eq!(made.headers["location"], path.as_str());
    assert_eq!((made.text("/name"), made.text("/image"), made.text("/digest")), ("web".into(), id, digest));
    assert_eq!((made.text("/status").as_str(), &made.json()["size"]), ("ACTIVE", &json!(500_000)));
    assert_eq!(compute.counts().writes(Write::Create, "web"), 1);

    assert_eq!(client.send("GET", &path, "").await.json(), made.json());
    assert_eq!(client.send("GET", "/servers", "").await.json(), json!({ "servers": [made.json()] }));
    assert_eq!(client.send("DELETE", &path, "").await.status, 204);
    assert_eq!(client.send("GET", &path, "").await.status, 404);
    assert_eq!(client.send("PUT", &path, "").await.status, 405);
}

#[tokio::test]
async fn what_image_refuses_is_said_and_no_server_is_made() {
    let (image, mut images) = image().await;
    let queued = images.send("POST", "/images", r#"{"name":"empty"}"#).await.text("/id");
    let (compute, _handle, mut client) = compute_on(&image.url()).await;

    let missing = client.send("POST", "/servers", order("web", ID)).await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["image_service"]["status"], 404);
    assert!(missing.text("/error/image_service/body/error/message").contains(ID), "{missing:?}");

    let early = client.send("POST", "/servers", order("web", &queued)).await;
    assert_eq!(
        (early.status.as_u16(), &early.json()["error"]["image_service"]["status"]),
        (502, &json!(409))
    );

    image.faults().set(Fault::Unavailable);
    let broken = client.send("POST", "/servers", order("web", ID)).await;
    assert_eq!(
        (broken.status.as_u16(), &broken.json()["error"]["image_service"]["status"]),
        (502, &json!(503))
    );

    image.stop().await;
    let gone = client.send("POST", "/servers", order("web", ID)).await;
    assert_eq!(gone.status, 502);
    assert!(gone.text("/error/message").contains("refused"), "{gone:?}");

    assert_eq!(compute.counts().writes(Write::Create, "web"), 0);
    assert_eq!(client.send("GET", "/servers", "").await.json(), json!({ "servers": [] }));
}

#[tokio::test]
async fn an_image_service_that_hangs_is_given_up() {
    let (image, _images) = image().await;
    image.faults().set(Fault::Hang);
    let mut settings = Settings::new(&image.url()).unwrap();
    settings.image_timeout = Duration::from_millis(20);
    let handle = Handle::spawn(Compute::new(settings)).await.unwrap();
    let mut client = Client::connect(handle.address()).await;
    assert_eq!(client.send("POST", "/servers", order("web", ID)).await.status, 504);
}

#[tokio::test]
async fn a_file_that_is_not_what_its_record_promised_is_refused() {
    let (url, _told) = recorder(r#"{"digest":"sha256:00"}"#, "hello").await;
    let (_, _handle, mut client) = compute_on(&url).await;
    let refused = client.send("POST", "/servers", order("web", ID)).await;
    assert_eq!(refused.status, 502);
    assert!(refused.text("/error/message").contains("promised"), "{refused:?}");
}

#[tokio::test]
async fn orders_that_make_no_sense_are_refused_before_image_is_asked() {
    let (url, mut told) = recorder("{}", "").await;
    let (_, _handle, mut client) = compute_on(&url).await;
    for body in ["", "{}", r#"{"name":"x"}"#, &order("x", ".."), &order("x", "a/b"), &order("x", "a?b=c")] {
        assert_eq!(client.send("POST", "/servers", body.to_owned()).await.status, 400, "{body}");
    }
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn trace_context_goes_on_to_image_and_nothing_else_does() {
    let (url, mut told) = recorder("{}", "hello").await;
    let (_, _handle, mut client) = compute_on(&format!("{url}/v2/")).await;
    let brought = [
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "vendor=1"),
        ("baggage", "cause=abc"),
        ("x-scope", "image: Site2"),
        ("authorization", "secret"),
    ];
    let made = client.try_send("POST", "/servers", &brought, order("web", ID)).await.unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let mut spans = Vec::new();
    for path in [format!("/v2/images/{ID}"), format!("/v2/images/{ID}/file")] {
        let (asked, headers) = told.recv().await.unwrap();
        assert_eq!(asked, path);
        let parent = headers["traceparent"].to_str().unwrap().to_owned();
        assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{parent}");
        spans.push(parent);
        assert_eq!(
            (&headers["tracestate"], &headers["baggage"]),
            (&"vendor=1".parse().unwrap(), &"cause=abc".parse().unwrap())
        );
        let mut names: Vec<_> = headers.keys().map(hyper::header::HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["baggage", "host", "traceparent", "tracestate"]);
    }
    assert_ne!(spans[0], spans[1]);
}

#[tokio::test]
async fn a_request_without_a_trace_starts_one_for_all_that_it_causes() {
    let (url, mut told) = recorder("{}", "hello").await;
    let (_, _handle, mut client) = compute_on(&url).await;
    assert_eq!(client.send("POST", "/servers", order("web", ID)).await.status, 201);
    let mut traces = Vec::new();
    for _ in 0..2 {
        let (_, headers) = told.recv().await.unwrap();
        traces.push(headers["traceparent"].as_bytes()[3..35].to_owned());
    }
    assert_eq!(traces[0], traces[1]);
}

#[test]
fn an_address_that_is_none_is_refused_at_once() {
    for url in ["", "image:9292", "https://image", "/images", "http://"] {
        let error = Settings::new(url).expect_err(url);
        assert!(error.to_string().contains("http://host:port"));
    }
}
