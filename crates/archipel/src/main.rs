//! The `archipel` binary: the command line, and nothing that another crate could hold.

mod scope_command;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use scope::{Diagnostic, Style};

/// Geo-distributes applications that were never written for it.
#[derive(Parser)]
#[command(name = "archipel", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check, rewrite and try out scopes.
    #[command(subcommand)]
    Scope(scope_command::ScopeCommand),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Scope(command) => command.run(),
    };
    match outcome.and_then(|line| print(&line)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Why a command did not do what was asked.
enum Failure {
    /// What was asked makes no sense: exit status 2.
    Usage(String),
    /// Likewise, with a place to point at.
    Scope(Box<Diagnostic>),
    /// The system said no: exit status 1.
    Io(io::Error),
}

impl Failure {
    fn report(&self) -> ExitCode {
        let stderr = io::stderr();
        let colours =
            stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (text, code) = match self {
            Failure::Usage(why) => (format!("error: {why}"), 2),
            Failure::Scope(diagnostic) => {
                (diagnostic.render(if colours { Style::Coloured } else { Style::Plain }), 2)
            }
            // Whoever read the output has stopped reading: there is nobody to tell.
            Failure::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::FAILURE,
            Failure::Io(error) => (format!("error: {error}"), 1),
        };
        // If standard error is gone too, the exit status is all that is left to say it with.
        let _ = writeln!(stderr.lock(), "{text}");
        ExitCode::from(code)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure::Scope(Box::new(diagnostic))
    }
}

fn print(line: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(Failure::Io)
}
