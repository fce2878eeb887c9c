//! Durations as the language writes them: `250us`, `10ms`, `2s`, `1min`.

use std::time::Duration;

/// The units, largest first, and how many microseconds each has.
const UNITS: [(&str, u64); 4] = [("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// Reads digits and a unit. The error says what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits).unwrap_or(("", text));
    let Some((_, micros)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err("a duration is digits and `us`, `ms`, `s` or `min`, such as `10ms`".to_owned());
    };
    if count.is_empty() {
        return Err("a duration starts with digits, such as `10ms`".to_owned());
    }
    let total = count.parse().ok().and_then(|count: u64| count.checked_mul(*micros));
    total
        .map(Duration::from_micros)
        .ok_or_else(|| "this duration is too long to count in microseconds".to_owned())
}

/// The shortest exact spelling: the largest unit that leaves no remainder.
#[must_use]
pub fn print_duration(duration: Duration) -> String {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return "0s".to_owned();
    }
    let exact = UNITS.iter().find(|(_, unit)| micros.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{micros}us"), |(name, unit)| format!("{}{name}", micros / unit))
}
