//! Any text as `archipel.toml`: a configuration, or faults that can be shown.

#![no_main]

use std::path::Path;

use archipel::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    match Config::read("archipel.toml", input, Path::new(".")) {
        Ok(config) => drop(config.atlas()),
        Err(faults) => assert!(!faults.to_string().is_empty()),
    }
});
