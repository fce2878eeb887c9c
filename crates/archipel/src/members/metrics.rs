//! A site's metrics, read from a file that something else writes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// A file of metrics is short. One that is not is a mistake.
const LONGEST: u64 = 64 << 10;

/// Reads lines of a name and a number, with a space, `:` or `=` between. Empty lines, and lines that start
/// with `#`, say nothing; a line that says something else is at fault.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, f64>, String> {
    let mut text = String::new();
    // To open what is no file, a pipe say, might take for ever.
    let regular = fs::metadata(path).and_then(|about| {
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
        about.is_file().then_some(()).ok_or_else(no_file)
    });
    let read = regular
        .and_then(|()| File::open(path))
        .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    match read {
        // Whoever measures has not measured yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("`{}` cannot be read: {error}", path.display())),
        Ok(_) if text.len() as u64 > LONGEST => return Err(format!("`{}` is too long", path.display())),
        Ok(_) => {}
    }
    let mut metrics = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.split_once([' ', '\t', ':', '=']).and_then(|(name, value)| {
            let value = value.trim_matches([' ', '\t', ':', '=']).parse::<f64>().ok()?;
            value.is_finite().then(|| (name.trim().to_owned(), value))
        });
        let (name, value) = parsed.ok_or_else(|| {
            format!("`{}`, line {}: `load 0.7` is a line, this is not", path.display(), number + 1)
        })?;
        metrics.insert(name, value);
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn lines_of_a_name_and_a_number_are_metrics() {
        let file = file("# measured by cron\nload 0.7\n\nprice = 12\ncarbon: 210.5\nheat\t-3\n");
        let expected = [("load", 0.7), ("price", 12.0), ("carbon", 210.5), ("heat", -3.0)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(read(file.path()), Ok(BTreeMap::from(expected)));
    }

    #[test]
    fn a_file_that_is_not_there_yet_says_nothing_and_one_with_a_fault_says_where() {
        assert_eq!(read(Path::new("no such file")), Ok(BTreeMap::new()));
        for text in ["load 0.7\nprice", "load 0.7\nprice x", "load 0.7\nprice nan"] {
            let why = read(file(text).path()).unwrap_err();
            assert!(why.contains("line 2"), "{why}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap_err().contains("no regular file"));
        assert!(read(file(&"x".repeat(70_000)).path()).unwrap_err().contains("too long"));
    }
}
