//! Both engines do what any engine must.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use common::on_each_engine;

#[test]
fn each_engine_keeps_the_contract() {
    for (name, case) in store::contract::cases() {
        println!("{name}");
        on_each_engine(async |engine| case(engine).await);
    }
}
