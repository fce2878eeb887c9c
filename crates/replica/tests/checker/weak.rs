//! At `@weak` each site executes in its own order, and each operation once.

use replica::{Body, Class, Doubt, Level, Meta, Naming, Settings, Subject, Write};

use crate::world::{Weather, World};
use crate::{rule, states, who};

fn meta() -> Meta {
    Meta("w".into())
}

fn write(world: &mut World, at: usize, subject: Subject, class: Class, body: String) {
    let doubt = if world.chance.percent(50) { Doubt::Ask } else { Doubt::Probe };
    let doubt = if class == Class::Create { Doubt::Repeat } else { doubt };
    let on_behalf_of = who(&world.places[at].site);
    world.write(at, Write { subject, class, doubt, on_behalf_of, body: Body(body.into()), long: false });
}

fn run(seed: u64) -> World {
    let mut world = World::new(seed, 3, Settings::default());
    world.weather = Weather::Fair;
    let sites = world.places.iter().map(|place| place.site.clone()).collect();
    let subject = Subject::New { naming: Naming::Chosen(meta()), level: Level::Weak, sites };
    write(&mut world, 0, subject, Class::Create, "set 0".to_owned());
    world.heal();
    world.weather = Weather::Foul;
    for _ in 0..300 {
        let at = world.chance.below(3);
        match world.chance.below(30) {
            0..=2 => {
                let n = world.chance.below(1_000_000);
                write(&mut world, at, Subject::Existing(meta()), Class::Add, format!("add {n}"));
            }
            3 if world.chance.percent(30) => world.crash(at),
            4 => world.settle(at),
            _ => world.step(),
        }
    }
    world.heal();
    world
}

#[test]
fn each_weak_write_is_executed_once_at_each_site() {
    let (mut adds, mut crashes) = (0, 0);
    for seed in 3_000..3_040 {
        let world = run(seed);
        let all = || world.history.values().filter(|op| op.class == Class::Add);
        let sum: i64 = all().map(rule::number).sum();
        for state in states(&world, &meta()) {
            assert_eq!(state.0.map(|it| it.value), Some(sum), "seed {seed}");
        }
        adds += all().count();
        crashes += world.crashes;
    }
    assert!(adds > 300 && crashes > 50, "{adds} {crashes}");
}
