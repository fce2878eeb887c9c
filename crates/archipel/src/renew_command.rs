//! `archipel renew`: a site's identity for another year, issued where the authority's key is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use link::{Authority, Identity, IdentityError, SiteCertificate};

use crate::Failure;

/// The file of a site's certificate in its identity.
const CERTIFICATE: &str = "site.pem";

#[derive(Args)]
#[command(after_help = "\
Where the authority is, with the site's certificate (site.pem; it is no secret) copied there:
  archipel renew site1/identity        issues it anew, in its place; copy site.pem back to the site

Without copying files, by two pasted lines:
  archipel renew --request             at the site: prints the line to paste where the authority is
  archipel renew 3082…                 there: prints the line to paste at the site
  archipel renew --install 3082…       at the site: puts the renewed certificate in its place

Then a SIGHUP takes it on; no connection is cut. The site's key stays what it is and where it is, and the
authority's key never leaves its place. It works also when the identity has expired. To have a new key too,
or after a revocation, make the site anew with `archipel init`.")]
pub(crate) struct RenewCommand {
    /// The site: the directory of its identity, the file of its certificate, or the line of `--request`.
    #[arg(value_name = "SITE", required_unless_present_any = ["request", "install"])]
    site: Option<String>,
    /// The directory of the operator's certificate authority.
    #[arg(long, value_name = "DIR", default_value = "authority")]
    authority: PathBuf,
    /// Print the line to paste at the site, and write nothing.
    #[arg(long, conflicts_with_all = ["request", "install"])]
    line: bool,
    /// At the site: print the line to paste where the authority is.
    #[arg(long, conflicts_with_all = ["site", "install"])]
    request: bool,
    /// At the site: put a renewed certificate in its place.
    #[arg(long, value_name = "LINE", conflicts_with = "site")]
    install: Option<String>,
    /// At the site: the directory of its identity.
    #[arg(long, value_name = "DIR", default_value = "identity")]
    identity: PathBuf,
}

impl RenewCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        if self.request {
            let own =
                SiteCertificate::load(&self.identity.join(CERTIFICATE)).map_err(|error| failed(&error))?;
            return Ok(format!("archipel renew {}", archipel::hex::encode(own.der())));
        }
        if let Some(line) = &self.install {
            let identity =
                Identity::install(&self.identity, &pasted(line)?).map_err(|error| failed(&error))?;
            return Ok(format!(
                "the identity of {} is valid until {}; a SIGHUP takes it on",
                identity.site(),
                identity.validity().until_date()
            ));
        }
        let site = self.site.as_deref().unwrap_or_default();
        self.issue(site)
    }

    /// Issues the certificate of a site anew.
    fn issue(&self, site: &str) -> Result<String, Failure> {
        let path = Path::new(site);
        let path = if path.is_dir() { path.join(CERTIFICATE) } else { path.to_owned() };
        let (old, file) = if path.exists() {
            (SiteCertificate::load(&path).map_err(|error| failed(&error))?, Some(path).filter(|_| !self.line))
        } else {
            (pasted(site)?, None)
        };
        let authority = Authority::load(&self.authority).map_err(|error| failed(&error))?;
        if is_revoked(&self.authority, &old)? {
            return Err(Failure::Usage(format!(
                "this identity of `{site}` was revoked, and whoever has its key would be believed again\n\
                 help: make the site anew, with a new key: archipel init --site '{site}'",
                site = old.site()
            )));
        }
        let renewed = authority.renew(&old).map_err(|error| failed(&error))?;
        match file {
            Some(file) => {
                renewed.replace(&file).map_err(|error| failed(&error))?;
                let (site, file) = (renewed.site(), file.display());
                Ok(format!("{file} is renewed: copy it to {site}, where a SIGHUP takes it on"))
            }
            None => Ok(format!("archipel renew --install {}", archipel::hex::encode(renewed.der()))),
        }
    }
}

/// Beside the authority's key: which identities were revoked with it, a line each of the moment and the site.
const REVOKED: &str = "revoked.txt";

/// Remembers that all identities of a site up to a moment are void: none of them is issued anew.
pub(crate) fn note_revoked(authority: &Path, site: &str, at: SystemTime) -> io::Result<()> {
    let micros = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let mut file = OpenOptions::new().create(true).append(true).open(authority.join(REVOKED))?;
    file.write_all(format!("{micros} {site}\n").as_bytes())?;
    file.sync_all()
}

fn is_revoked(authority: &Path, certificate: &SiteCertificate) -> Result<bool, Failure> {
    let path = authority.join(REVOKED);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => {
            read.map_err(|error| Failure::Usage(format!("`{}` cannot be read: {error}", path.display())))?
        }
    };
    Ok(text.lines().filter_map(|line| line.split_once(' ')).any(|(micros, site)| {
        let at = micros.parse().ok().and_then(|micros| UNIX_EPOCH.checked_add(Duration::from_micros(micros)));
        // What cannot be read was written to shut a site out.
        site == certificate.site() && at.is_none_or(|at| certificate.issued() <= at)
    }))
}

/// A certificate as it is pasted.
fn pasted(line: &str) -> Result<SiteCertificate, Failure> {
    let words = || {
        let shown: String = line.chars().take(40).collect();
        Failure::Usage(format!(
            "`{}` is neither the identity of a site nor a line of `archipel renew`: is it whole?",
            shown.escape_debug()
        ))
    };
    let digits: String = line.split_whitespace().collect();
    let bytes = archipel::hex::decode(&digits).filter(|bytes| !bytes.is_empty()).ok_or_else(words)?;
    SiteCertificate::from_der(bytes).map_err(|_| words())
}

fn failed(error: &IdentityError) -> Failure {
    Failure::Usage(error.to_string())
}
