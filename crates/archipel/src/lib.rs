//! What the `archipel` binary is made of, besides its command line.

pub mod admin;
pub mod adopt;
pub mod against;
pub mod assemble;
pub mod config;
pub mod demo;
pub mod hex;
pub mod identity;
pub mod members;
