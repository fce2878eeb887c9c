//! `archipel init`: who the operator is, and who a site is.

use std::path::PathBuf;

use clap::Args;
use link::{Authority, Fault};

use crate::Failure;

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel init --site Site1                      makes ./authority if it is missing, and ./identity
  archipel init --site 'DC 2' --out dc2/identity  another site of the same operator

Keep the authority's directory somewhere safe, away from the sites: who has it can be any site.
Copy each site's identity to that site, and name it in archipel.toml: identity = \"identity\".")]
pub(crate) struct InitCommand {
    /// The site's name.
    #[arg(long, value_name = "SITE")]
    site: String,
    /// The directory of the operator's certificate authority; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "authority")]
    authority: PathBuf,
    /// The operator's name, for a new authority.
    #[arg(long, value_name = "NAME", default_value = "archipel")]
    operator: String,
    /// The directory for the site's identity. No file in it is overwritten.
    #[arg(long, value_name = "DIR", default_value = "identity")]
    out: PathBuf,
}

impl InitCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let failed = |error: link::IdentityError| Failure::Usage(error.to_string());
        if scope::Site::new(&self.site).is_none() {
            return Err(Failure::Usage(format!("`{}` cannot be a site's name", self.site.escape_debug())));
        }
        let (authority, made) = match Authority::load(&self.authority) {
            Ok(authority) => (authority, ""),
            Err(error)
                if matches!(error.fault(), Fault::Missing) && !self.authority.join("ca-key.pem").exists() =>
            {
                let authority = Authority::create(&self.operator).map_err(failed)?;
                authority.save(&self.authority).map_err(failed)?;
                (authority, " (new)")
            }
            Err(error) => return Err(failed(error)),
        };
        authority.issue(&self.site).and_then(|identity| identity.save(&self.out)).map_err(failed)?;
        Ok(format!(
            "authority {}{made}\nidentity of {} {}",
            self.authority.display(),
            self.site,
            self.out.display()
        ))
    }
}
