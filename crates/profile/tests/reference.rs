//! `docs/profiles.md` is the reference: every key and word that a profile can have is in the section of its table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// The section of each type that is read, by the file and the name of the type.
const SECTIONS: [(&str, &str, &str); 40] = [
    ("lib", "Profile", "## The file"),
    ("lib", "Problems", "## `[problems]`"),
    ("propagation", "Propagation", "## `[propagation]`"),
    ("propagation", "Header", "### `[[propagation.headers]]`"),
    ("propagation", "Form", "### `[[propagation.headers]]`"),
    ("propagation", "ServiceToken", "### `[[propagation.service_tokens]]`"),
    ("propagation", "Origin", "## `[origin]`"),
    ("lists", "Lists", "## `[lists]`"),
    ("lists", "Sort", "### `[lists.sort]`"),
    ("lists", "Paging", "### `[lists.paging]`"),
    ("lists", "Next", "### `[lists.paging]`"),
    ("lists", "Kind", "### `[[lists.kinds]]`"),
    ("lists", "Totals", "## `[[totals]]`"),
    ("answers", "Fails", "## `[[fails]]`"),
    ("answers", "Says", "## `[[fails]]`"),
    ("settles", "Settles", "## `[[settles]]`"),
    ("streams", "StreamRule", "## `[[streams]]`"),
    ("sessions", "Session", "## `[[sessions]]`"),
    ("effect", "DryRun", "## `[[dry_runs]]`"),
    ("together", "Together", "## `[[together]]`"),
    ("kinds", "Kind", "## `[[kinds]]`"),
    ("kinds", "NamedBy", "## `[[kinds]]`"),
    ("kinds", "Deletion", "## `[[kinds]]`"),
    ("ids", "Table", "### The form of ids"),
    ("kinds", "Operation", "### `operations` of a kind"),
    ("kinds", "Class", "### `operations` of a kind"),
    ("kinds", "Doubt", "### `operations` of a kind"),
    ("elements", "Elements", "### A part that is an element of a field"),
    ("contents", "Contents", "### What documents name by its content"),
    ("contents", "ContentUpload", "### What documents name by its content"),
    ("probe", "Words", "### What becomes of a write without an answer"),
    ("owner", "Owner", "### An owner"),
    ("identity", "Identity", "## `[identity]`"),
    ("identity", "Projects", "### `[[identity.projects]]`"),
    ("identity", "Issue", "### `[identity.issue]`"),
    ("identity", "Validate", "### `[identity.validate]`"),
    ("identity", "Says", "### `[identity.says]`"),
    ("identity", "Owned", "### `[identity.says]`"),
    ("identity", "Find", "### `[identity.find]`"),
    ("identity", "Lookup", "### `[identity.find]`"),
];

/// Types that stand for another, or for any document.
const NO_KEYS: [(&str, &str); 4] =
    [("kinds", "Kinds"), ("probe", "Probe"), ("identity", "Template"), ("ids", "Written")];

/// A type that is read, with its keys or words.
struct Type {
    file: String,
    name: String,
    keys: Vec<String>,
}

/// Every type of the crate that derives `Deserialize`, as its source has it. `File` is what tests read.
fn types() -> Vec<Type> {
    let mut types = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        let mut lines = code.lines();
        while let Some(line) = lines.next() {
            if !(line.starts_with("#[derive(") && line.contains("Deserialize")) {
                continue;
            }
            let declared =
                lines.by_ref().find(|line| line.contains("struct ") || line.contains("enum ")).unwrap();
            let is_enum = declared.contains("enum ");
            let words = declared.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let name = words.split([' ', '(', '<']).nth(1).unwrap().to_owned();
            if declared.ends_with(';') {
                types.push(Type { file: file.clone(), name, keys: Vec::new() });
                continue;
            }
            let body = lines.by_ref().take_while(|line| *line != "}");
            let keys = body.filter_map(|line| if is_enum { variant(line) } else { field(line) }).collect();
            types.push(Type { file: file.clone(), name, keys });
        }
    }
    types
}

fn field(line: &str) -> Option<String> {
    let line = line.strip_prefix("    ").filter(|line| !line.starts_with([' ', '#', '/']))?;
    let (name, _) = line.split_once(": ")?;
    Some(name.rsplit(' ').next()?.to_owned())
}

/// The word of a variant, in kebab case.
fn variant(line: &str) -> Option<String> {
    let line = line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase))?;
    let name: String = line.chars().take_while(|c| c.is_alphanumeric()).collect();
    let mut word = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_uppercase() && index > 0 {
            word.push('-');
        }
        word.extend(c.to_lowercase());
    }
    Some(word)
}

/// The lines of a section, up to the next heading.
fn section<'p>(page: &'p str, heading: &str) -> Vec<&'p str> {
    let mut lines = page.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "the page has no section `{heading}`");
    lines.take_while(|line| !line.starts_with('#') || line.starts_with("# ")).collect()
}

#[test]
fn every_key_of_a_profile_is_in_the_reference() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/profiles.md")).unwrap();
    let (types, mut missing, mut found) = (types(), Vec::new(), 0);
    for Type { file, name, keys } in &types {
        if NO_KEYS.contains(&(file.as_str(), name.as_str())) {
            continue;
        }
        let place = SECTIONS.iter().find(|(own, known, _)| own == file && known == name);
        let Some((.., heading)) = place else {
            panic!(
                "`{file}.rs` reads `{name}`: say in this test which section of docs/profiles.md has its keys"
            );
        };
        let lines = section(&page, heading);
        for key in keys {
            let spelled = [format!("`{key}`"), format!("{{ {key} = "), format!("= \"{key}\"`")];
            found += 1;
            if !lines.iter().any(|line| spelled.iter().any(|own| line.contains(own.as_str()))) {
                missing.push(format!("{heading}: `{key}` ({file}.rs, {name})"));
            }
        }
    }
    assert!(found > 100 && types.len() > 30, "{found} keys of {} types: this tests nothing", types.len());
    assert!(missing.is_empty(), "docs/profiles.md lacks:\n{}", missing.join("\n"));
}
