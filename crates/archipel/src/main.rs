//! The `archipel` binary: the command line, and nothing that another crate could hold.

mod bypass_command;
mod check_command;
mod demo_command;
mod init_command;
mod member_command;
mod memory;
mod openstack_command;
mod operations_command;
mod profile_command;
mod renew_command;
mod replicas_command;
mod reservations_command;
mod run_command;
mod running;
mod scope_command;
mod sites_command;
mod status_command;
mod table;
mod zone_command;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use archipel::config::Faults;
use clap::{Parser, Subcommand};
use scope::{Diagnostic, Style};

/// Geo-distributes applications that were never written for it.
#[derive(Parser)]
#[command(name = "archipel", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, made once")]
enum Command {
    /// See it work: four sites on this machine, and the papers' scenarios.
    Demo(demo_command::DemoCommand),
    /// Run one site's mesh.
    Run(run_command::RunCommand),
    /// Check a site's configuration.
    Check(check_command::CheckCommand),
    /// Make an operator's authority and a site's identity.
    Init(init_command::InitCommand),
    /// Issue a site's identity for another year.
    Renew(renew_command::RenewCommand),
    /// Turn a running mesh into plain forwarding, at once, and back.
    Bypass(bypass_command::BypassCommand),
    /// Say what a running mesh is doing.
    Status(status_command::StatusCommand),
    /// Who is there, as a running site sees it.
    Sites(sites_command::SitesCommand),
    /// Meet other sites.
    Join(member_command::JoinCommand),
    /// Say goodbye to the other sites.
    Leave(member_command::LeaveCommand),
    /// Name locations, at every site.
    #[command(subcommand)]
    Zone(zone_command::ZoneCommand),
    /// Tell the other sites this site's load, price or the like.
    Metric(member_command::MetricCommand),
    /// Keep a site visible, but unused.
    Quarantine(member_command::QuarantineCommand),
    /// Shut a stolen site out, everywhere and for good.
    Revoke(member_command::RevokeCommand),
    /// Replicated resources: where their replicas are, and moving them.
    #[command(subcommand)]
    Replicas(replicas_command::ReplicasCommand),
    /// What sites still have to execute, and what is in doubt.
    #[command(subcommand)]
    Operations(operations_command::OperationsCommand),
    /// Names that writes to exactly one of several sites have reserved.
    #[command(subcommand)]
    Reservations(reservations_command::ReservationsCommand),
    /// Check what is said of an application, also against the application.
    #[command(subcommand)]
    Profile(profile_command::ProfileCommand),
    /// Put Archipel in front of an OpenStack.
    #[command(subcommand)]
    Openstack(openstack_command::OpenstackCommand),
    /// Check, rewrite and try out scopes.
    #[command(subcommand)]
    Scope(scope_command::ScopeCommand),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Renew(command) => command.run(),
        Command::Bypass(command) => command.run(),
        Command::Sites(command) => command.run(),
        Command::Join(command) => command.run(),
        Command::Leave(command) => command.run(),
        Command::Zone(command) => command.run(),
        Command::Metric(command) => command.run(),
        Command::Quarantine(command) => command.run(),
        Command::Revoke(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Replicas(command) => command.run(),
        Command::Operations(command) => command.run(),
        Command::Reservations(command) => command.run(),
        Command::Profile(command) => command.run(),
        Command::Openstack(command) => command.run(),
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
    /// Likewise, with many.
    Config(Box<Faults>),
    /// What was asked for was found out, and is not as it should be (a scenario of the demo failed, a service differs from its
    /// profile): exit status 1.
    Found(String),
    /// Somebody ended it: exit status 130, as a shell has it.
    Interrupted,
    /// The system said no: exit status 1.
    Io(io::Error),
}

impl Failure {
    fn report(&self) -> ExitCode {
        let stderr = io::stderr();
        let colours =
            stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let style = if colours { Style::Coloured } else { Style::Plain };
        let (text, code) = match self {
            Failure::Usage(why) => (format!("error: {why}"), 2),
            Failure::Scope(diagnostic) => (diagnostic.render(style), 2),
            Failure::Config(faults) => (faults.render(style), 2),
            Failure::Found(lines) => {
                let _ = print(lines);
                return ExitCode::FAILURE;
            }
            Failure::Interrupted => return ExitCode::from(130),
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

/// Says what may not be meant, and goes on.
fn warn(line: &str) {
    // If nobody reads it, the work goes on all the same.
    let _ = writeln!(io::stderr().lock(), "warning: {line}");
}

/// Says something to whoever runs this, with the time; standard output is for what was asked for.
fn say(line: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // If nobody reads it, the work goes on all the same.
    let _ = writeln!(
        io::stderr().lock(),
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z {line}"
    );
}

/// The date of a day, counted from 1 January 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_are_dates() {
        let dates = [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (789, (1972, 2, 29)), (11_016, (2000, 2, 29))];
        for (days, date) in dates.into_iter().chain([
            (20_772, (2026, 11, 15)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ]) {
            assert_eq!(super::date(days), date, "day {days}");
        }
    }
}
