//! What tests of three sites begin with.

use std::time::{Duration, Instant};

use archipel::demo::World;

use super::{PATIENCE, ask, get};

/// The number of a site, from 0.
pub type Site = usize;

/// An image that every site has.
pub const SHARED_IMAGE: &str = "7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11";

/// Puts the shared image at every site, each with a file of its own in it.
pub fn share_image(world: &World) {
    for site in 0..3 {
        let to = world.address(site, "image").unwrap();
        let path = format!("/images/{SHARED_IMAGE}");
        assert_eq!(ask(to, "PUT", &path, &[], "{\"name\":\"shared\"}").unwrap().status(), 201);
        let file = format!("the file of site {site}");
        assert_eq!(ask(to, "PUT", &format!("{path}/file"), &[], &file).unwrap().status(), 200);
    }
}

/// Waits until every site reaches every other: they try by themselves, ever less often.
pub fn joined(world: &World) {
    let start = Instant::now();
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let scope = format!("image: Site{}", to + 1);
        let address = world.address(from, "image").unwrap();
        while get(address, "/images", &[("x-scope", &scope)]).status() != 200 {
            assert!(start.elapsed() < PATIENCE, "Site{} does not find Site{}", from + 1, to + 1);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
