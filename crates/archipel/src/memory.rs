//! Code that only the start needed is given back: docs/decisions/0012-memory.md.

use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// How long after the start of everything its code is still wanted: sites are being joined.
const STARTED: Duration = Duration::from_secs(2);

/// Gives it back, some time after now.
pub(crate) async fn give_back_start() {
    tokio::time::sleep(STARTED).await;
    give_back();
}

/// What is needed again comes back from the file, page by page. Where the system does not tell what is mapped, all stays.
fn give_back() {
    let Ok(told) = fs::read_to_string("/proc/self/smaps") else { return };
    for pages in of_files_alone(&told) {
        let start = std::ptr::with_exposed_provenance_mut::<c_void>(pages.start);
        #[expect(unsafe_code, reason = "the only way to tell the kernel")]
        // SAFETY: nobody can write to these pages, and none has a byte that is not in its file (`of_files_alone`): whoever
        // reads one afterwards finds what was there before.
        let _ = unsafe { madvise(start, pages.len(), Advice::LinuxDontNeed) };
    }
}

/// The addresses of what is mapped of a file, cannot be written to, and has no page of its own: not what the loader has filled
/// in and then protected.
fn of_files_alone(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Anonymous:"), Some("0")) => found.extend(current.take()),
            (Some(first), Some(rights)) if !first.ends_with(':') => {
                let is_file = words.nth(2).is_some_and(|inode| inode != "0");
                let is_fixed = is_file && matches!(rights.as_bytes(), [_, b'-', _, b'p']);
                current = addresses(first).filter(|_| is_fixed);
            }
            _ => {}
        }
    }
    found
}

fn addresses(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "\
1000-3000 r--p 00000000 fe:00 53 /bin/archipel
Rss:                   8 kB
Anonymous:             0 kB
3000-5000 r-xp 00002000 fe:00 53 /bin/archipel
Anonymous:             0 kB
5000-6000 r--p 00004000 fe:00 53 /bin/archipel, filled in by the loader
Anonymous:             4 kB
6000-7000 rw-p 00005000 fe:00 53 /bin/archipel
Anonymous:             0 kB
7000-8000 r--s 00000000 fe:00 54 /shared
Anonymous:             0 kB
8000-9000 r--p 00000000 00:00 0 [vvar]
Anonymous:             0 kB
9000-a000 ---p 00000000 00:00 0
Anonymous:             0 kB
";

    #[test]
    fn only_what_a_file_still_has_is_given_back() {
        assert_eq!(of_files_alone(TOLD), [0x1000..0x3000, 0x3000..0x5000]);
        assert_eq!(of_files_alone("zz-1 r--p 0 0 1 /x\nAnonymous: 0 kB\nAnonymous: 0 kB\n"), []);
    }

    /// How much that gives back is asked of a whole process, in `tests/process.rs`.
    #[test]
    fn code_that_is_given_back_comes_back() {
        let before = of_files_alone(&fs::read_to_string("/proc/self/smaps").unwrap());
        give_back();
        let after = of_files_alone(&fs::read_to_string("/proc/self/smaps").unwrap());
        assert_eq!(before, after);
        assert!(!before.is_empty());
    }
}
