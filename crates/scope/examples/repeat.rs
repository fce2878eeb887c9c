//! Reads or plans one typical scope many times, for counting instructions: `repeat parse|plan TIMES`.

use std::hint::black_box;

use scope::{Atlas, Dialect, Site};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let times: usize = arguments.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    let text = "compute: Site1, image: Site2 | Site3";
    let dialect = Dialect::default();
    let view = Atlas::new((1..=8).filter_map(|n| Site::new(&format!("Site{n}")))).expect("there are sites");
    let scope = dialect.scope(text).expect("a typical scope is valid");
    for _ in 0..times {
        match what.as_str() {
            "parse" => drop(black_box(dialect.scope(black_box(text)))),
            _ => drop(black_box(dialect.plan(black_box(&scope), "image", &view))),
        }
    }
}
