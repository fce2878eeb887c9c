//! Any text as a profile: an error or a profile, and one that can be asked about any request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profile::Profile;

fuzz_target!(|input: &str| {
    let (text, path) = input.split_once("\n---\n").unwrap_or((input, "/v2/images/a/file"));
    let faults = profile::faults(text);
    assert!(faults.iter().all(|fault| !fault.message.is_empty()));
    assert_eq!(faults.is_empty(), Profile::read(text).is_ok(), "{faults:?}");
    let known = match Profile::read(text) {
        Ok(known) => known,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for service in ["image", "compute", "identity", "things", path] {
        let _ = known.lists.of(service, path);
        let _ = known.totals(service, path);
        let _ = known.settles(service, "POST", path);
        let _ = known.runs_at_origin(service);
        let judge = known.judge(service, "POST", path, Some(path));
        let _ = judge.map(|judge| judge.fails(403, Some(path.as_bytes())));
        for item in known.kinds.items(service, path) {
            let _ = item.kind.rule("PUT", path);
            for content in item.kind.contents_of(item.path, text.as_bytes()) {
                assert!(known.kinds.is_content(service, &content.path), "{content:?}");
                let _ = content.upload.map(|upload| (upload.begin(&content), upload.end(path, &content)));
            }
        }
        let _ = known.kinds.collection(service, path);
        let _ = known.begins_session(service, "POST", path);
    }
});
