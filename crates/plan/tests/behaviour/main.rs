//! What each operator does, as in the table of the language's reference.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail the test, as the test itself does"
)]

mod hedges;
mod knowledge;
mod lists;
mod nested;
mod reach;
mod reads;
mod refused;
mod replicas;
mod report;
mod stage;
mod unique;
mod within;
mod writes;
