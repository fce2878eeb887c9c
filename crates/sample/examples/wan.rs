//! An emulated WAN between processes, for `./bench replicate`.
//!
//! `wan RTT_MS IP,TARGET,KIB_PER_SECOND…` prints, for each place, where the others reach it. A link has the bandwidth of
//! the slower of its two places. It ends when its standard input does.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::time::Duration;

use sample::wan::{Network, Shape};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: wan RTT_MS IP,TARGET,KIB_PER_SECOND…";
    let rtt = Duration::from_millis(arguments.next().ok_or(usage)?.parse()?);
    let network = Network::start(Shape::with_rtt(rtt), 1)?;
    let mut places: Vec<(IpAddr, u64)> = Vec::new();
    for argument in arguments {
        let mut fields = argument.split(',');
        let (Some(ip), Some(target), Some(rate)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(usage.into());
        };
        let (ip, rate): (IpAddr, u64) = (ip.parse()?, rate.parse()?);
        let address = network.add(ip, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), target.parse()?)?;
        for (other, others) in &places {
            let bandwidth = NonZeroU64::new(rate.min(*others).saturating_mul(1024));
            let shape = Shape { bandwidth, ..Shape::with_rtt(rtt) };
            network.set_shape(ip, *other, shape)?;
            network.set_shape(*other, ip, shape)?;
        }
        places.push((ip, rate));
        writeln!(std::io::stdout(), "{address}")?;
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
