//! The form of the ids that a service gives to what it names.

use serde::Deserialize;

/// The form of the ids of one kind. It decides what a resource is called where it is at several sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdForm {
    /// UUIDs, with hyphens or without. No service gives one twice, so they are safe to replace wherever they are.
    Uuid,
}
