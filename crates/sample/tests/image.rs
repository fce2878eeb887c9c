//! The `image` service, over real connections.

// Clippy knows `#[test]` functions, not the functions that they share.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use sample::image::{Image, Settings};
use sample::{Fault, Handle, Write};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Of `hello`.
const DIGEST: &str = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

async fn service() -> (Image, Handle, Client) {
    service_with(&Settings::default()).await
}

async fn service_with(settings: &Settings) -> (Image, Handle, Client) {
    let image = Image::new(settings);
    let handle = Handle::spawn(image.clone()).await.unwrap();
    let client = Client::connect(handle.address()).await;
    (image, handle, client)
}

#[tokio::test]
async fn an_image_lives_from_its_creation_to_its_deletion() {
    let (_, _handle, mut client) = service().await;
    let made = client.send("POST", "/images", r#"{"name":"debian"}"#).await;
    assert_eq!(made.status, 201);
    let id = made.text("/id");
    let path = format!("/images/{id}");
    assert_eq!(made.headers["location"], path.as_str());
    assert_eq!(made.text("/name"), "debian");
    assert_eq!(made.text("/status"), "queued");
    assert_eq!(made.json()["size"], Value::Null);
    assert_eq!(client.send("GET", &format!("{path}/file"), "").await.status, 409);

    let put = client.send("PUT", &format!("{path}/file"), "hello").await;
    assert_eq!((put.status.as_u16(), put.text("/digest").as_str()), (200, DIGEST));
    assert_eq!((put.text("/status").as_str(), &put.json()["size"]), ("active", &json!(5)));

    let shown = client.send("GET", &path, "").await;
    assert_eq!(shown.json(), put.json());
    assert_eq!(client.send("GET", &format!("{path}/file"), "").await.body, "hello");

    let renamed = client.send("PATCH", &path, r#"{"name":"debian 13"}"#).await;
    assert_eq!((renamed.text("/name").as_str(), renamed.text("/digest").as_str()), ("debian 13", DIGEST));

    assert_eq!(client.send("DELETE", &path, "").await.status, 204);
    assert_eq!(client.send("DELETE", &path, "").await.status, 404);
    assert_eq!(client.send("GET", &path, "").await.status, 404);
}

#[tokio::test]
async fn a_put_with_an_id_of_the_clients_makes_an_image_once() {
    let (image, _handle, mut client) = service().await;
    let path = "/images/0d3f6f5e-8f6b-4a55-9d5e-2f4f0c4b7a11";
    let made = client.send("PUT", path, r#"{"name":"a"}"#).await;
    assert_eq!((made.status.as_u16(), made.headers["location"].to_str().unwrap()), (201, path));
    let changed = client.send("PUT", path, r#"{"name":"b"}"#).await;
    assert_eq!((changed.status.as_u16(), changed.text("/name").as_str()), (200, "b"));
    assert_eq!(image.counts().writes(Write::Create, "a"), 1);
    assert_eq!(image.counts().writes(Write::Create, "b"), 0);
    assert_eq!(image.counts().writes(Write::Update, "b"), 1);
}

#[tokio::test]
async fn a_post_may_choose_the_id_and_is_refused_where_it_is_taken() {
    let (image, _handle, mut client) = service().await;
    let chosen = r#"{"name":"a","id":"0d3f6f5e-8f6b-4a55-9d5e-2f4f0c4b7a11"}"#;
    let made = client.send("POST", "/images", chosen).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.headers["location"], "/images/0d3f6f5e-8f6b-4a55-9d5e-2f4f0c4b7a11");
    assert_eq!(client.send("POST", "/images", chosen).await.status, 409);
    assert_eq!(client.send("POST", "/images", r#"{"name":"a","id":"7"}"#).await.status, 400);
    assert_eq!(image.counts().writes(Write::Create, "a"), 1);
}

#[tokio::test]
async fn the_list_has_every_image_oldest_first() {
    let (_, _handle, mut client) = service().await;
    assert_eq!(client.send("GET", "/images", "").await.json(), json!({ "images": [] }));
    for name in ["c", "a", "b"] {
        client.make_image(name, "x").await;
    }
    let list = client.send("GET", "/images", "").await.json();
    let names: Vec<_> =
        list["images"].as_array().unwrap().iter().map(|image| image["name"].clone()).collect();
    assert_eq!(names, ["c", "a", "b"]);
}

#[tokio::test]
async fn pages_of_the_list_have_every_image_once() {
    let (_, _handle, mut client) = service().await;
    for name in ["a", "b", "c", "d", "e"] {
        client.make_image(name, "x").await;
    }
    let mut path = "/images?limit=2".to_owned();
    let mut pages = Vec::new();
    loop {
        let page = client.send("GET", &path, "").await.json();
        let names = page["images"].as_array().unwrap().iter().map(|image| image["name"].clone());
        pages.push(names.collect::<Vec<_>>());
        match page["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(json!(pages), json!([["a", "b"], ["c", "d"], ["e"]]));
    for query in ["limit=0", "limit=x", "marker=x", "marker=00000000-0000-4000-8000-000000000000"] {
        let refused = client.send("GET", &format!("/images?{query}"), "").await;
        assert_eq!(refused.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_head_has_the_headers_of_the_get_and_no_body() {
    let (_, _handle, mut client) = service().await;
    let id = client.make_image("x", "hello").await;
    for path in ["/images".to_owned(), format!("/images/{id}"), format!("/images/{id}/file")] {
        let get = client.send("GET", &path, "").await;
        let head = client.send("HEAD", &path, "").await;
        assert_eq!((head.status, head.body.len()), (get.status, 0));
        for name in ["content-length", "content-type"] {
            assert_eq!(head.headers[name], get.headers[name], "{path}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_in_json_and_not_counted_as_done() {
    let (_, handle, mut client) = service().await;
    let unknown = "/images/0d3f6f5e-8f6b-4a55-9d5e-2f4f0c4b7a11";
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(256));
    let huge = format!(r#"{{"name":"{}"}}"#, "x".repeat(70_000));
    for (method, path, body, status) in [
        ("GET", "/", "", 404),
        ("GET", "/images/", "", 404),
        ("GET", "/images/nonsense", "", 404),
        ("GET", unknown, "", 404),
        ("PATCH", unknown, r#"{"name":"x"}"#, 404),
        ("PUT", &format!("{unknown}/file"), "bytes", 404),
        ("PUT", "/images/nonsense", r#"{"name":"x"}"#, 400),
        ("PUT", unknown, "", 400),
        ("POST", "/images", "{", 400),
        ("POST", "/images", r#"{"name":7}"#, 400),
        ("POST", "/images", r#"{"name":""}"#, 400),
        ("POST", "/images", &long, 400),
        ("POST", "/images", &huge, 413),
        ("DELETE", "/images", "", 405),
        ("POST", unknown, "", 405),
        ("POST", &format!("{unknown}/file"), "", 405),
        ("POST", "/_counts", "", 405),
    ] {
        // A refused body may cost the connection.
        let mut fresh = Client::connect(handle.address()).await;
        let answer = fresh.send(method, path, body.to_owned()).await;
        assert_eq!(answer.status, status, "{method} {path} {body}");
        assert_eq!(answer.json()["error"]["status"], status);
        assert_ne!(answer.text("/error/message"), "");
        assert_eq!(answer.headers.contains_key("allow"), status == 405);
    }
    let counts = client.send("GET", "/_counts", "").await.json();
    assert_eq!((&counts["writes"], &counts["updates"]), (&json!({}), &json!({})));
    assert_eq!(counts["requests"], 16);
}

#[tokio::test]
async fn a_large_file_comes_back_as_it_was() {
    let (_, _handle, mut client) = service().await;
    let file: Vec<u8> = (0..3_000_001_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let id = client.make_image("large", file.clone()).await;
    let got = client.send("GET", &format!("/images/{id}/file"), "").await;
    assert_eq!(got.headers["content-length"], "3000001");
    assert!(got.body == file);
}

#[tokio::test]
async fn files_beyond_the_memory_are_refused_and_deleting_makes_room() {
    let (_, _handle, mut client) = service_with(&Settings { memory_bytes: 300_000, label: None }).await;
    let first = client.make_image("first", vec![1; 200_000]).await;
    let second = client.send("POST", "/images", r#"{"name":"second"}"#).await.text("/id");
    let path = format!("/images/{second}/file");
    let refused = client.send("PUT", &path, vec![2; 200_000]).await;
    assert_eq!(refused.status, 413);
    assert_ne!(refused.text("/error/message"), "");
    assert_eq!(client.send("GET", &format!("/images/{second}"), "").await.text("/status"), "queued");
    assert_eq!(client.send("DELETE", &format!("/images/{first}"), "").await.status, 204);
    assert_eq!(client.send("PUT", &path, vec![2; 200_000]).await.status, 200);
}

#[tokio::test]
async fn an_upload_of_unknown_length_is_bounded_and_one_that_breaks_off_is_not_stored() {
    let (image, handle, mut client) = service_with(&Settings { memory_bytes: 32_000, label: None }).await;
    let id = client.send("POST", "/images", r#"{"name":"x"}"#).await.text("/id");
    let head = format!("PUT /images/{id}/file HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n");
    let chunk = format!("2710\r\n{}\r\n", "x".repeat(10_000));
    let end = "0\r\n\r\n";
    let stored = format!("{chunk}{end}");
    let too_large = format!("{chunk}{chunk}{chunk}{end}");
    for (body, status) in [(&stored, "HTTP/1.1 200"), (&too_large, "HTTP/1.1 413"), (&chunk, "")] {
        let mut raw = TcpStream::connect(handle.address()).await.unwrap();
        let request = format!("{head}connection: close\r\n\r\n{body}");
        raw.write_all(request.as_bytes()).await.unwrap();
        if !body.ends_with(end) {
            raw.shutdown().await.unwrap();
        }
        let mut answer = Vec::new();
        // One that broke off may be told so, or not.
        let _ = raw.read_to_end(&mut answer).await;
        assert!(answer.starts_with(status.as_bytes()), "{}", String::from_utf8_lossy(&answer));
        let shown = client.send("GET", &format!("/images/{id}"), "").await;
        assert_eq!(shown.json()["size"], 10_000);
    }
    assert_eq!(image.counts().writes(Write::Upload, "x"), 1);
}

#[tokio::test]
async fn records_are_bounded_too() {
    let (_, _handle, mut client) = service_with(&Settings { memory_bytes: 2048, label: None }).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.send("POST", "/images", r#"{"name":"x"}"#).await.status.as_u16());
    }
    assert_eq!(statuses, [201, 201, 507]);
}

#[tokio::test]
async fn answers_say_who_served_and_counts_say_what_ran() {
    let settings = Settings { label: Some("image@Site1".into()), ..Settings::default() };
    let (_, handle, mut client) = service_with(&settings).await;
    for _ in 0..2 {
        client.send("POST", "/images", r#"{"name":"twice"}"#).await;
    }
    assert_eq!(client.send("GET", "/nothing", "").await.headers["x-served-by"], "image@Site1");
    handle.faults().set(Fault::Unavailable);
    let refused = client.send("POST", "/images", r#"{"name":"never"}"#).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.headers["x-served-by"]),
        (503, &"image@Site1".parse().unwrap())
    );
    let counts = client.send("GET", "/_counts", "").await.json();
    assert_eq!((&counts["writes"], &counts["requests"]), (&json!({ "twice": 2 }), &json!(4)));
}

#[tokio::test]
async fn a_hung_request_runs_once_when_the_fault_is_lifted() {
    let (image, handle, mut client) = service().await;
    handle.faults().set(Fault::Hang);
    let request = tokio::spawn(async move { client.send("POST", "/images", r#"{"name":"late"}"#).await });
    handle.faults().until_held(1).await;
    assert_eq!(image.counts().writes(Write::Create, "late"), 0);
    handle.faults().set(Fault::None);
    assert_eq!(request.await.unwrap().status, 201);
    assert_eq!(image.counts().writes(Write::Create, "late"), 1);
}

#[tokio::test]
async fn a_mute_service_executes_and_does_not_say_so() {
    let (image, handle, mut client) = service().await;
    handle.faults().set(Fault::Mute);
    let request =
        tokio::spawn(async move { client.try_send("POST", "/images", &[], r#"{"name":"unknown"}"#).await });
    handle.faults().until_held(1).await;
    assert_eq!(image.counts().writes(Write::Create, "unknown"), 1);
    handle.stop().await;
    assert!(request.await.unwrap().is_err());
}

#[tokio::test]
async fn a_slow_service_answers_no_sooner_than_told() {
    let (_, handle, mut client) = service().await;
    handle.faults().set(Fault::Slow(Duration::from_millis(40)));
    let start = Instant::now();
    assert_eq!(client.send("GET", "/images", "").await.status, 200);
    assert!(start.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn a_service_that_is_run_again_has_what_it_had() {
    let (image, handle, mut client) = service().await;
    let id = client.make_image("kept", "hello").await;
    handle.stop().await;
    let again = Handle::spawn(image).await.unwrap();
    let mut client = Client::connect(again.address()).await;
    assert_eq!(client.send("GET", &format!("/images/{id}/file"), "").await.body, "hello");
}

#[test]
fn services_run_on_threads_of_their_own_many_to_a_process() {
    let here = "127.0.0.1:0".parse().unwrap();
    let handles: Vec<_> =
        (0..4).map(|_| Handle::spawn_thread(Image::new(&Settings::default()), here).unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for handle in handles {
            let address = handle.address();
            let mut client = Client::connect(address).await;
            client.make_image("mine", "x").await;
            let list = client.send("GET", "/images", "").await.json();
            assert_eq!(list["images"].as_array().unwrap().len(), 1);
            handle.stop().await;
            assert!(TcpStream::connect(address).await.is_err());
        }
    });
}
