//! The order that a request asks for, and how items compare in it.

use std::cmp::Ordering;

use profile::Sort;
use serde_json::Value;

use crate::item::Path;
use crate::query;

/// How many fields an order may have: more tell nothing more.
const MOST_KEYS: usize = 16;

/// An order of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    keys: Vec<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    field: Path,
    descending: bool,
    time: bool,
}

impl Order {
    /// The order that a query asks for, else the application's own. None: it is not known.
    pub(crate) fn of(sort: &Sort, text: &str) -> Option<Order> {
        let all = |name: &Option<String>| name.as_ref().map_or_else(Vec::new, |name| query::all(text, name));
        let mut said: Vec<(String, bool)> =
            all(&sort.combined).iter().flat_map(|value| combined(value, sort.descending)).collect();
        let dirs = all(&sort.dirs);
        for (index, name) in all(&sort.keys).into_iter().enumerate() {
            // One direction is for all.
            let dir = dirs.get(index).or(dirs.first());
            said.push((name, dir.map_or(sort.descending, |dir| is_descending(dir))));
        }
        if said.is_empty() {
            said = sort.default.iter().flat_map(|value| combined(value, sort.descending)).collect();
            // A direction alone is one for the application's own order.
            if let Some(dir) = dirs.first() {
                for (_, descending) in &mut said {
                    *descending = is_descending(dir);
                }
            }
        }
        said.truncate(MOST_KEYS);
        let key = |(name, descending): (String, bool)| {
            let name = sort.fields.get(&name).cloned().unwrap_or(name);
            Key { time: sort.times.contains(&name), field: Path::new(&name), descending }
        };
        let keys: Vec<Key> = said.into_iter().map(key).collect();
        if keys.is_empty() { None } else { Some(Order { keys }) }
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &Path> {
        self.keys.iter().map(|key| &key.field)
    }

    /// Where an item with these fields comes.
    pub(crate) fn rank<'a>(&self, fields: impl Iterator<Item = Option<&'a Value>>) -> Rank {
        Rank(self.keys.iter().zip(fields).map(|(key, value)| (part(key, value), key.descending)).collect())
    }
}

/// `name:asc,size:desc`, `-name`, `+name`.
fn combined(text: &str, descending: bool) -> impl Iterator<Item = (String, bool)> {
    text.split(',').filter(|key| !key.is_empty()).map(move |key| {
        if let Some(name) = key.strip_prefix('-') {
            return (name.to_owned(), true);
        }
        let key = key.strip_prefix(['+', ' ']).unwrap_or(key);
        match key.split_once(':') {
            Some((name, dir)) => (name.to_owned(), is_descending(dir)),
            None => (key.to_owned(), descending),
        }
    })
}

fn is_descending(dir: &str) -> bool {
    dir.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("desc"))
}

/// A place in an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rank(Vec<(Part, bool)>);

/// What is compared of one field. Values of different kinds are in this order.
#[derive(Clone, Debug)]
enum Part {
    Nothing,
    Bool(bool),
    Number(f64),
    Time(i64, u32),
    Text(String),
}

fn part(key: &Key, value: Option<&Value>) -> Part {
    match value {
        Some(Value::Bool(value)) => Part::Bool(*value),
        Some(Value::Number(value)) => Part::Number(value.as_f64().unwrap_or_default()),
        Some(Value::String(text)) if key.time => {
            time(text).map_or_else(|| Part::Text(text.clone()), |(seconds, nanos)| Part::Time(seconds, nanos))
        }
        Some(Value::String(text)) => Part::Text(text.clone()),
        _ => Part::Nothing,
    }
}

impl Part {
    fn kind(&self) -> u8 {
        match self {
            Part::Nothing => 0,
            Part::Bool(_) => 1,
            Part::Number(_) => 2,
            Part::Time(..) => 3,
            Part::Text(_) => 4,
        }
    }

    fn compare(&self, other: &Part) -> Ordering {
        match (self, other) {
            (Part::Bool(a), Part::Bool(b)) => a.cmp(b),
            (Part::Number(a), Part::Number(b)) => a.total_cmp(b),
            (Part::Time(a, b), Part::Time(c, d)) => (a, b).cmp(&(c, d)),
            (Part::Text(a), Part::Text(b)) => a.cmp(b),
            (a, b) => a.kind().cmp(&b.kind()),
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        let mut parts = self.0.iter().zip(&other.0).map(|((a, descending), (b, _))| {
            let order = a.compare(b);
            if *descending { order.reverse() } else { order }
        });
        parts.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}

/// A date as seconds and nanoseconds since 1970, in UTC where it does not say: `2026-01-31T08:00:00.5+01:00`.
fn time(text: &str) -> Option<(i64, u32)> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let at = |index: usize| text.as_bytes().get(index).copied();
    if (at(4), at(7), at(13), at(16)) != (Some(b'-'), Some(b'-'), Some(b':'), Some(b':')) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let seconds = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", rest),
    };
    let nanos = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction)).parse().ok()?;
    let offset = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, _, _, _] => {
            let part = |range| zone.get(range).and_then(|digits: &str| digits.parse::<i64>().ok());
            let offset = part(1..3)? * 3600 + part(4..6)? * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Some((days(year, month, day) * 86400 + seconds - offset, nanos))
}

/// Days since 1970 in the Gregorian calendar. Years begin in March, so that a leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_compare_by_the_moment_not_by_their_spelling() {
        assert_eq!(time("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(time("2000-03-01T00:00:00"), Some((951_868_800, 0)));
        assert_eq!(time("2026-01-31T08:00:00+01:00"), time("2026-01-31 07:00:00.000000"));
        assert_eq!(time("1970-01-01T01:02:03Z"), Some((3723, 0)));
        assert_eq!(time("2000-02-29T00:00:00Z"), Some((951_782_400, 0)));
        assert_eq!(time("2026-01-31T08:00:00-05:30"), time("2026-01-31T13:30:00Z"));
        assert_eq!(time("2026-01-31T08:00:00+05:45"), time("2026-01-31T02:15:00Z"));
        assert!(time("2026-01-31T08:00:00.25Z") < time("2026-01-31T08:00:00.3Z"));
        for bad in ["", "yesterday", "2026-01-31", "2026-01-31T08:00:00+x1:00", "2026-01-31T08:00:00é"] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn values_of_different_kinds_have_an_order_too() {
        let sort = Sort { default: vec!["a".into()], ..Sort::default() };
        let key = |time: bool| {
            let mut order = Order::of(&sort, "").unwrap();
            let mut key = order.keys.remove(0);
            key.time = time;
            key
        };
        let values = ["null", "false", "true", "-1", "1.5", "\"2026-01-31T08:00:00Z\"", "\"a\"", "\"b\""];
        let parts: Vec<Part> = values
            .iter()
            .map(|value| part(&key(true), Some(&serde_json::from_str(value).unwrap())))
            .collect();
        assert!(parts.is_sorted_by(|a, b| a.compare(b).is_lt()), "{parts:?}");
        let text = part(&key(false), Some(&Value::from("2026-01-31T08:00:00Z")));
        assert!(matches!(text, Part::Text(_)), "only what is said to be a time is one");
    }

    #[test]
    fn an_order_is_read_in_each_of_its_spellings() {
        let sort = Sort {
            keys: Some("sort_key".into()),
            dirs: Some("sort_dir".into()),
            combined: Some("sort".into()),
            default: vec!["created:desc".into()],
            ..Sort::default()
        };
        let said = |text: &str| {
            let order = Order::of(&sort, text).unwrap();
            order.keys.iter().map(|key| (key.field.segments().join("."), key.descending)).collect::<Vec<_>>()
        };
        let keys =
            |keys: &[(&str, bool)]| -> Vec<_> { keys.iter().map(|(k, d)| ((*k).to_owned(), *d)).collect() };
        assert_eq!(said("limit=2"), keys(&[("created", true)]));
        assert_eq!(said("sort_dir=asc"), keys(&[("created", false)]));
        assert_eq!(said("sort_key=a&sort_key=b.c&sort_dir=desc"), keys(&[("a", true), ("b.c", true)]));
        assert_eq!(
            said("sort_key=a&sort_dir=desc&sort_key=b&sort_dir=asc"),
            keys(&[("a", true), ("b", false)])
        );
        assert_eq!(said("sort=a:asc%2Cb:desc"), keys(&[("a", false), ("b", true)]));
        assert_eq!(said("sort=-a,+b,c"), keys(&[("a", true), ("b", false), ("c", false)]));
    }
}
