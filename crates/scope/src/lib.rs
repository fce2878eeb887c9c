//! The scope language: which service of a request runs at which site.
//!
//! ```text
//! compute: Site1, image: Site2 | Site3
//! ```
//!
//! A [`Dialect`] reads a text into a [`Scope`], and resolves what the scope says of one service, against
//! a [`View`] of the sites, into a [`Plan`]. What is wrong comes back as a [`Diagnostic`] that points.
//!
//! The crate is pure: it does no I/O, has no clock and no randomness, and knows neither HTTP nor which
//! sites exist. It never panics, whatever the text, and its time is bounded by [`Limits`].
//!
//! In the order in which a text meets them: `token` and `parse` (text to syntax), `syntax` and
//! `combine` (the canonical shape), `print`, `function` (the table of functions), `resolve` (names to sites), `plan`.

mod combine;
mod diagnostic;
mod dialect;
mod duration;
mod function;
mod limits;
mod parse;
mod plan;
mod print;
mod resolve;
mod span;
mod syntax;
mod token;
mod view;

pub use diagnostic::{Code, Diagnostic, Style, nearest, some_of};
pub use dialect::{Dialect, Services};
pub use duration::{parse_duration, print_duration};
pub use limits::Limits;
pub use plan::Plan;
pub use span::Span;
pub use syntax::{Combination, Level, Location, Scope};
pub use token::is_name;
pub use view::{Atlas, Known, Site, View, Zone};
