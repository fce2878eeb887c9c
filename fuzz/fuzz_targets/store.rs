//! A store's file that was damaged: an error or what was stored, and no panic, whatever is done with it.

#![no_main]

mod altered;
#[path = "../../crates/store/tests/common/mod.rs"]
#[allow(dead_code, unused, missing_docs)]
mod common;

use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::LazyLock;

use altered::altered;
use common::{Account, Item, account, block_on, item, schema};
use libfuzzer_sys::fuzz_target;
use store::embedded::Embedded;
use store::{Error, Query, Store};
use tempfile::TempDir;

/// In the paths of the engine's source.
const ENGINE: &str = "redb-";

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() }.expect("a directory")
});

/// The engine may panic on what cannot be right, where `store` catches it and makes it an error. Any other panic ends this.
fn hear_only_our_panics() {
    let ours = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_the_engines(panic) {
            ours(panic);
        }
    }));
}

fn is_the_engines(panic: &PanicHookInfo<'_>) -> bool {
    panic.location().is_some_and(|place| place.file().contains(ENGINE)) || {
        // A function of the standard library panics where it is: the trace says who called it, the last call first.
        let trace = Backtrace::force_capture().to_string();
        let engine = trace.find(ENGINE);
        engine.is_some_and(|engine| trace.find("crates/store/src").is_none_or(|store| engine < store))
    }
}

static WHOLE: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    hear_only_our_panics();
    let path = DIRECTORY.path().join("whole");
    block_on(async {
        let store = open(&path).await.expect("a store");
        for id in 0..50 {
            let write = store.session(async |session| {
                session.insert(&item(id, "a", 1)).await?;
                session.put(&account("a", i64::from(id))).await
            });
            write.await.expect("a session");
        }
        store.close().await.expect("an end");
    });
    let whole = std::fs::read(&path).expect("a file");
    vec![whole]
});

async fn open(path: &Path) -> Result<Store, Error> {
    Store::open(Embedded::open(path).await?, schema()).await
}

async fn visit(path: &Path) -> Result<(), Error> {
    let store = open(path).await?;
    let _ = store.check().await;
    let _ = store.session(async |session| session.put(&item(1, "b", 2)).await).await;
    let view = store.view().await?;
    let _ = Query::<Account>::all().collect(&view).await;
    let _ = Query::<Item>::all().collect(&view).await;
    store.close().await
}

// The file is larger than the 64 KiB that a change can name: each change is made at its place in each such part.
fuzz_target!(|input: &[u8]| {
    let mut broken = altered(&WHOLE, input);
    for change in input.get(1..).unwrap_or_default().chunks_exact(4).take(16) {
        let [part, high, low, value] = *change else { continue };
        let at = usize::from(part) << 16 | usize::from(u16::from_be_bytes([high, low]));
        let at = at % broken.len().max(1);
        if let Some(byte) = broken.get_mut(at) {
            *byte ^= value;
        }
    }
    let path = DIRECTORY.path().join("broken");
    std::fs::write(&path, &broken).expect("a file");
    let _ = block_on(visit(&path));
});
