//! How long it takes to read a scope and to plan with it.

use criterion::{Criterion, criterion_group, criterion_main};
use scope::{Atlas, Dialect, Site};
use std::hint::black_box;

const TYPICAL: [(&str, &str); 3] = [
    ("share", "compute: Site1, image: Site2"),
    ("operators", "compute: Site1, image: (Site1 & Site2 & Site3) @quorum ; Site4 | Site5"),
    ("json", r#"{"Identity": "Site1", "Compute": "Site1 || Site2", "Image": "Site1"}"#),
];

fn language(c: &mut Criterion) {
    let dialect = Dialect::default();
    let view = Atlas::new((1..=8).filter_map(|n| Site::new(&format!("Site{n}")))).expect("there are sites");
    for (name, text) in TYPICAL {
        c.bench_function(&format!("parse/{name}"), |b| b.iter(|| dialect.scope(black_box(text))));
        let scope = dialect.scope(text).expect("a typical scope is valid");
        c.bench_function(&format!("plan/{name}"), |b| {
            b.iter(|| dialect.plan(black_box(&scope), "image", &view));
        });
    }
}

criterion_group!(benches, language);
criterion_main!(benches);
