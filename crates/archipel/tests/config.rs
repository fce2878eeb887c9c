//! A configuration is read whole or not at all, and every fault in it is named with its line.

use std::fs;
use std::path::Path;
use std::time::Duration;

use archipel::config::{Accept, Audit, Config, Faults, Limits, Mode, Named, Timeouts};
use scope::{Site, Style, View};
use tempfile::TempDir;

/// The least that is valid; what follows it starts at line 6.
const LEAST: &str = "\
site = 'Site1'
profile = 'openstack'
services.image.public = ['127.0.0.1:9292']
services.image.upstreams = ['http://127.0.0.1:29292']
identity = 'identity'
";

/// A directory with the files that configurations name.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(directory.path().join("identity")).expect("it can be written to");
    for file in
        ["identity/ca.pem", "identity/site.pem", "identity/site-key.pem", "ca.pem", "cert.pem", "key.pem"]
    {
        fs::write(directory.path().join(file), "").expect("it can be written to");
    }
    directory
}

fn read(text: &str) -> Result<Config, Faults> {
    Config::read("t.toml", text, directory().path())
}

/// What is wrong with the least that is valid, followed by `rest`: one line each.
fn faults_of(rest: &str) -> Vec<String> {
    let faults = read(&format!("{LEAST}{rest}")).expect_err(rest);
    faults.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn the_least_that_is_valid_has_every_default() {
    let config = read(LEAST).unwrap();
    assert_eq!(config.site, Site::new("Site1").unwrap());
    assert_eq!((config.mode, config.audit.as_ref()), (Mode::Route, None));
    assert_eq!((&config.limits, &config.timeouts), (&Limits::default(), &Timeouts::default()));
    assert!(config.peers.is_empty() && config.zones.is_empty() && config.link.is_none());
    assert!(config.state.ends_with("state"));
    let image = &config.services["image"];
    assert!(
        !image.strict
            && !image.settle
            && image.scope.is_none()
            && image.tls.is_none()
            && image.health.is_none()
    );
}

#[test]
fn each_kind_of_fault_names_its_line_and_its_key() {
    for (rest, expected) in [
        ("mod = 'route'", "t.toml:6: unknown key `mod`"),
        ("[limits]\nheader = 1", "t.toml:7: unknown key `limits.header`"),
        ("[services.volume]\npublic = ['127.0.0.1:1']", "t.toml:6: `services.volume.upstreams` is missing"),
        (
            "[services.volume]\nupstreams = ['http://a']",
            "t.toml:6: `services.volume.public` and `internal` are both missing: a service needs a listener",
        ),
        ("mode = 1", "t.toml:6: `mode` has an integer, and needs a string"),
        ("mode = 'rout'", "t.toml:6: no mode is called `rout`"),
        ("threads = 0", "t.toml:6: `threads` is out of range"),
        ("threads = 2.5", "t.toml:6: `threads` has a float, and needs a whole number"),
        ("labels = 'eu'", "t.toml:6: `labels` has a string, and needs a table"),
        ("[labels]\nregion = 'e u'", "t.toml:7: `labels.region` cannot be `e u`"),
        ("[labels]\n'a b' = 'eu'", "t.toml:7: `a b` cannot be a label"),
        ("services.image.public = ['1.2.3.4:1']", "t.toml:6: this is not TOML: duplicate key"),
        (
            "services.image.strict = 'yes'",
            "t.toml:6: `services.image.strict` has a string, and needs `true` or `false`",
        ),
        (
            "services.image.internal = 1",
            "t.toml:6: `services.image.internal` has an integer, and needs a list",
        ),
        ("services.image.internal = []", "t.toml:6: `services.image.internal` is empty"),
        ("services.image.internal = ['a:1']", "t.toml:6: `services.image.internal[0]` cannot be `a:1`"),
        ("services.image.upstream_ca = 'ca.pem'", "t.toml:6: `services.image.upstream_ca` has no use"),
        ("services.image.health = {}", "t.toml:6: `services.image.health.path` is missing"),
        ("services.image.health.path = 'x'", "t.toml:6: `services.image.health.path` cannot be `x`"),
        ("timeouts.idle = '5 s'", "t.toml:6: `timeouts.idle` cannot be `5 s`"),
        ("timeouts.idle = '0s'", "t.toml:6: `timeouts.idle` is out of range"),
        ("timeouts.idle = '1441min'", "t.toml:6: `timeouts.idle` is out of range"),
        ("limits.headers = 0", "t.toml:6: `limits.headers` is out of range"),
        ("limits.scope_depth = 129", "t.toml:6: `limits.scope_depth` is out of range"),
        (
            "[services.imge]\npublic = ['127.0.0.1:1']\nupstreams = ['http://a']",
            "t.toml:6: no service is called `imge`",
        ),
        ("state = ''", "t.toml:6: `state` is empty"),
    ] {
        assert_eq!(faults_of(rest), [expected], "{rest}");
    }
}

#[test]
fn each_fault_of_a_peer_names_its_line_and_its_key() {
    const LINK: &str = "link.listen = '127.0.0.1:7400'\n";
    for (rest, expected) in [
        ("peers.Site2 = {}", "t.toml:7: `peers.Site2.address` is missing"),
        ("peers.Site2.address = 'b'", "t.toml:7: `peers.Site2.address` cannot be `b`"),
        ("peers.Site1.address = 'b:1'", "t.toml:7: the peer `Site1` is this site"),
        ("peers.Site2.address = 'b:1'\npeers.Site3.address = 'b:1'", "t.toml:8: two peers at `b:1`"),
        ("peers.here.address = 'b:1'", "t.toml:7: `here` cannot be a site's name"),
        (
            "peers.Site2 = { address = 'b:1', rtt = 12 }",
            "t.toml:7: `peers.Site2.rtt` has an integer, and needs a duration in quotes, such as `\"60s\"`",
        ),
        (
            "peers.Site2 = { address = 'b:1', services = ['glanse'] }",
            "t.toml:7: no service is called `glanse`",
        ),
        ("peers.Site2 = { address = 'b:1', label.a = 'b' }", "t.toml:7: unknown key `peers.Site2.label`"),
    ] {
        assert_eq!(faults_of(&format!("{LINK}{rest}")), [expected], "{rest}");
    }
    assert_eq!(
        faults_of("peers.Site2.address = 'b:1'"),
        ["t.toml:1: `link.listen` is missing: this site has peers, and they must reach it"]
    );
    let text = LEAST.replace("identity = 'identity'", LINK);
    assert_eq!(
        read(&text).unwrap_err().to_string(),
        "t.toml:1: `identity` is missing: sites prove to each other who they are"
    );
}

#[test]
fn replication_is_on_with_a_credential_for_each_service_that_has_one() {
    let replication = read(LEAST).unwrap().replication.clone().unwrap();
    assert!(replication.credentials.is_empty());
    assert_eq!(replication.accept_from, None, "every site of the operator's");
    let text = "[replication]\nquota_mib = 5\n[replication.credentials.glance]\nX-Auth-Token = 'key.pem'";
    let replication = read(&format!("{LEAST}{text}")).unwrap().replication.clone().unwrap();
    assert_eq!(replication.quota_mib, 5);
    let [(header, file)] = &replication.credentials["image"][..] else { panic!("{replication:?}") };
    assert_eq!(header, "x-auth-token");
    assert!(file.ends_with("key.pem"));
    assert!(read(&format!("{LEAST}[replication]\nenabled = false")).unwrap().replication.is_none());
    for (rest, expected) in [
        ("[replication]\naccept_from = ['Site1', 'Sitz1']", "t.toml:7: no site is called `Sitz1`"),
        ("[replication]\naccept_from = ['a/b']", "t.toml:7: "),
        ("[replication]\nquota = 5", "t.toml:7: unknown key `replication.quota`"),
        ("[replication.credentials.glanc]", "t.toml:6: no service is called `glanc`"),
        ("[replication.credentials.image]\n'a b' = 'key.pem'", "t.toml:7: `a b` cannot be a header"),
        ("[replication.credentials.image]\na = 'no.pem'", "t.toml:7: `replication.credentials.image.a`"),
    ] {
        let faults = faults_of(rest);
        assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{faults:?}");
    }
}

#[test]
fn files_that_are_named_must_be_there() {
    let faults = faults_of(
        "services.image.tls.certificate = 'no.pem'\nservices.image.tls.key = 'identity'\naudit.file = 'no/audit.log'\n",
    );
    assert_eq!(faults.len(), 3, "{faults:?}");
    for (fault, (line, key)) in faults.iter().zip([(6, "tls.certificate"), (7, "tls.key"), (8, "audit.file")])
    {
        assert!(fault.starts_with(&format!("t.toml:{line}: ")) && fault.contains(key), "{fault}");
    }
    let faults = Config::read("t.toml", LEAST, Path::new("/nowhere")).unwrap_err().to_string();
    assert_eq!(faults, "t.toml:5: `identity` needs the directory `/nowhere/identity`");
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join("identity")).unwrap();
    let faults = Config::read("t.toml", LEAST, empty.path()).unwrap_err().to_string();
    assert_eq!(faults.matches("t.toml:5: `identity` needs the file").count(), 3, "{faults}");
}

#[test]
fn two_listeners_cannot_have_one_address() {
    let expected = ["t.toml:6: two listeners on `127.0.0.1:9292`"];
    assert_eq!(faults_of("services.image.internal = ['127.0.0.1:9292']"), expected);
    assert_eq!(faults_of("link.listen = '127.0.0.1:9292'"), expected);
    let expected = ["t.toml:6: two listeners on `0.0.0.0:9292`"];
    assert_eq!(faults_of("services.image.internal = ['0.0.0.0:9292']"), expected);
    let expected = ["t.toml:6: two listeners on `[::ffff:127.0.0.1]:9292`"];
    assert_eq!(faults_of("services.image.internal = ['[::ffff:127.0.0.1]:9292']"), expected);
    for other in ["127.0.0.2:9292", "127.0.0.1:9293", "[::]:9292", "127.0.0.1:0', '127.0.0.1:0"] {
        let text = format!("{LEAST}services.image.internal = ['{other}']");
        assert!(read(&text).is_ok(), "{other}");
    }
}

#[test]
fn a_service_under_two_of_its_names_is_refused() {
    let rest = "[services.Glance]\ninternal = ['127.0.0.1:1']\nupstreams = ['http://a']";
    let twice = "t.toml:6: `Glance` is the service `image`, which is there already";
    assert_eq!(faults_of(rest), [twice]);
    // Nor does it hide what else is wrong with either.
    let rest = format!("services.image.scope = 'image: X'\n{rest}\nscope = 'image: Y'");
    let faults = faults_of(&rest);
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn zones_are_checked_against_sites_and_each_other() {
    for (rest, expected) in [
        ("[zones]\nwest = 'Site1 &'", "t.toml:7: expected a location, found the end"),
        ("[zones]\nwest = 'Sit1 & here'", "t.toml:7: no site or zone is called `Sit1`"),
        ("[zones]\nwest = 'east'\neast = 'west'", "t.toml:8: the zone `east` would be defined by itself"),
        ("[zones]\nSite1 = 'here'", "t.toml:7: the zone `Site1` has the name of a site"),
        ("[zones]\nhere = 'Site1'", "t.toml:7: `here` cannot be a zone's name"),
        ("[zones]\nwest = 1", "t.toml:7: `zones.west` has an integer, and needs a string"),
    ] {
        assert_eq!(faults_of(rest), [expected], "{rest}");
    }
    assert!(read(&format!("{LEAST}[zones]\nwest = 'east'\neast = 'Site1'")).is_ok());
}

#[test]
fn default_scopes_are_planned_against_the_sites() {
    const PEER: &str = "link.listen = '127.0.0.1:7400'\npeers.Site2 = { address = 'b:1', services = ['nova'] }\npeers.Site3.address = 'c:1'\n";
    for (scope, expected) in [
        ("image: Site1 &", "t.toml:9: expected a location, found the end"),
        ("imge: Site1", "t.toml:9: no service is called `imge`"),
        ("image: Site4", "t.toml:9: no site or zone is called `Site4`"),
        ("image: except(Site1, Site1)", "t.toml:9: this location has no site"),
        ("image: where(region = eu)", "t.toml:9: no label is called `region`"),
        (
            "image: Site2",
            "t.toml:9: `services.image.scope` sends `image` to `Site2`, which does not offer it",
        ),
        ("", "t.toml:9: `services.image.scope` is an empty scope"),
    ] {
        assert_eq!(faults_of(&format!("{PEER}services.image.scope = '{scope}'")), [expected], "{scope}");
    }
    // What only measurements can tell is not refused before there are any.
    let near = "image: except(around(Site1, 5ms), Site1)";
    for scope in ["glance: Site1, *: Site1", "image: by(load, *)", near] {
        let read = read(&format!("{LEAST}{PEER}services.image.scope = '{scope}'"));
        assert!(read.is_ok(), "{scope}: {}", read.unwrap_err());
    }
}

/// A profile that lists no services cannot tell a slip; the file can.
#[test]
fn a_default_scope_names_services_that_some_site_offers() {
    let scoped = |scope: &str| {
        let peers =
            "[link]\nlisten = '127.0.0.1:7400'\n[peers.B]\naddress = 'b:1'\nservices = ['image', 'cart']";
        let least = LEAST.replace("openstack", "rest");
        read(&format!("{least}services.image.scope = '{scope}'\n{peers}")).map(drop)
    };
    assert!(scoped("image: B, Cart: B").is_ok());
    let fault = scoped("image: B, cat: B").unwrap_err().to_string();
    assert_eq!(fault, "t.toml:6: no service is called `cat`");
}

#[test]
fn one_fault_is_not_reported_as_another() {
    let fine_but_for_the_peer = "peers.Site2.address = 'b'\nlink.listen = '127.0.0.1:7400'\n\
        zones.west = 'Site2'\nservices.image.scope = 'image: west'\n";
    assert_eq!(faults_of(fine_but_for_the_peer), ["t.toml:6: `peers.Site2.address` cannot be `b`"]);
    let fine_but_for_the_zone = "zones.west = 'Site1 &'\nservices.image.scope = 'image: west'\n";
    assert_eq!(faults_of(fine_but_for_the_zone), ["t.toml:6: expected a location, found the end"]);
    let peer_as_a_string = "peers.Site2 = 'b:1'\nlink.listen = '127.0.0.1:7400'\nzones.west = 'Site2'\n";
    assert_eq!(faults_of(peer_as_a_string), ["t.toml:6: `peers.Site2` has a string, and needs a table"]);
    let zone_as_a_list = "zones.west = ['Site1']\nservices.image.scope = 'image: west'\n";
    assert_eq!(faults_of(zone_as_a_list), ["t.toml:6: `zones.west` has a list, and needs a string"]);
    let nameless = format!("{LEAST}services.image.scope = 'glance: Site1'").replace("site = ", "sit = ");
    let faults = read(&nameless).unwrap_err().to_string();
    assert_eq!(faults, "t.toml:1: `site` is missing\nt.toml:1: unknown key `sit`");
}

#[test]
fn every_syntax_error_is_reported() {
    let faults = read("site = \nprofile = 'rest\n[services\n").unwrap_err();
    let lines: Vec<usize> = faults.iter().map(|fault| faults.line(fault)).collect();
    assert_eq!(lines, [1, 2, 3], "{}", faults.render(Style::Plain));
    assert!(faults.iter().all(|fault| fault.code() == "toml"));
}

#[test]
fn faults_in_scopes_point_into_the_file_however_the_string_is_written() {
    let draw = |rest: &str| read(&format!("{LEAST}{rest}")).unwrap_err().render(Style::Plain);
    let plain = draw("services.image.scope = \"image: Sit1\"");
    assert!(
        plain.contains("--> t.toml:6:32\n") && plain.contains("^^^^ not a known site or zone"),
        "{plain}"
    );
    let long = draw("services.image.scope = '''\nimage:\n  Sit1'''");
    assert!(long.contains("--> t.toml:8:3\n"), "{long}");
    let escaped = draw("services.image.scope = \"image:\\tSit1\"");
    assert!(escaped.contains("--> t.toml:6:24\n") && escaped.contains("`Sit1`"), "{escaped}");
}

#[test]
fn any_text_is_read_without_a_panic() {
    for text in ["", "\u{feff}", "é = 'é'", "\0", "[", "=", "site = '''", "a.b.c.d = 1", "[[services]]"] {
        let faults = read(text).unwrap_err();
        assert!(faults.iter().count() > 0, "{text}");
        assert!(!faults.render(Style::Coloured).is_empty());
    }
}

#[test]
fn the_thin_path_is_on_unless_the_file_says_otherwise() {
    assert!(read(LEAST).unwrap().thin);
    assert!(read(&format!("{LEAST}[http]\n")).unwrap().thin);
    assert!(!read(&format!("{LEAST}[http]\nthin = false\n")).unwrap().thin);
}

#[test]
fn two_readings_of_one_file_are_equal_and_a_change_shows() {
    let directory = directory();
    let read = |text: &str| Config::read("t.toml", text, directory.path()).unwrap();
    assert_eq!(read(LEAST), read(LEAST));
    assert_ne!(read(LEAST), read(&LEAST.replace("9292", "9293")));
}

#[test]
fn the_example_is_valid_and_says_what_it_seems_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/archipel.example.toml");
    let text = fs::read_to_string(path).unwrap();
    let config = read(&text).unwrap_or_else(|faults| panic!("{}", faults.render(Style::Plain)));
    assert_eq!(config.timeouts, Timeouts::default());
    assert_eq!(config.limits, Limits::default());
    assert!(config.thin);
    assert!(matches!(&config.audit, Some(Audit::File(path)) if path.ends_with("audit.log")));

    let atlas = config.atlas();
    let names: Vec<&str> = atlas.members().iter().map(Site::name).collect();
    assert_eq!(names, ["Site1", "Site2", "Site3"]);
    assert_eq!(atlas.rtt(0, 1), Some(Duration::from_millis(12)));
    assert_eq!((atlas.rtt(0, 2), atlas.label(1, "region")), (None, Some("eu")));
    assert!(atlas.offers(1, "image") && atlas.offers(2, "image") && !atlas.offers(2, "compute"));
    let dialect = config.dialect();
    let scope = dialect.scope("image: west ; Site3").unwrap();
    let plan = dialect.plan(&scope, "image", &atlas).unwrap().unwrap();
    assert_eq!(plan.to_string(), "Site1 & Site2 ; Site3");
}

#[test]
fn every_key_of_the_example_is_documented() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let reference = fs::read_to_string(docs.join("configuration.md")).unwrap();
    let example = fs::read_to_string(docs.join("archipel.example.toml")).unwrap();
    let settings = example.lines().filter(|line| !line.starts_with('#'));
    for (key, _) in settings.filter_map(|line| line.split_once(" = ")) {
        if ["west", "region"].contains(&key) {
            continue; // names, not keys
        }
        assert!(reference.contains(&format!("| `{key}` |")), "{key} is in no table of configuration.md");
    }
}

#[test]
fn a_profile_of_ones_own_comes_from_a_directory() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("mine")).unwrap();
    let profile = "description = 'a shop'\n[services]\ncart = ['basket']\n[propagation]\nbaggage = true\n";
    fs::write(home.path().join("mine/shop.toml"), profile).unwrap();
    let text = |profile: &str, service: &str| {
        format!(
            "site = 'A'\nprofile = '{profile}'\nprofiles = 'mine'\n[services.{service}]\n\
             public = ['127.0.0.1:0']\nupstreams = ['http://127.0.0.1:1']\n"
        )
    };
    let config = Config::read("x", &text("shop", "basket"), home.path()).unwrap();
    assert!(config.services.contains_key("cart") && config.profile.propagation.baggage);
    assert!(Config::read("x", &text("shop", "image"), home.path()).is_err(), "not a service of the shop");
    assert!(Config::read("x", &text("rest", "image"), home.path()).is_ok(), "built-in ones are there too");
    fs::write(home.path().join("mine/shop.toml"), "description = 3").unwrap();
    let faults = Config::read("x", &text("shop", "cart"), home.path()).unwrap_err().to_string();
    assert!(faults.contains("shop.toml"), "{faults}");
}

/// A site with an identity service and a peer, and the login that finds its users.
const WITH_LOGIN: &str = "\
peers.Site2.address = '127.0.0.1:7402'
link.listen = '127.0.0.1:7401'
services.identity.internal = ['127.0.0.1:15000']
services.identity.upstreams = ['http://127.0.0.1:25000']
[tokens]
login = { user = 'archipel', domain = 'Default', project = 'service', password_file = 'key.pem' }
";

#[test]
fn tokens_are_accepted_for_all_projects_for_some_or_as_others() {
    let named = |domain: &str, name: &str| Named { domain: domain.into(), name: name.into() };
    let same = |domain: &str, name: &str| (named(domain, name), named(domain, name));
    for (projects, expected) in [
        ("'*'", Accept::All),
        ("['demo', 'Other/x/y']", Accept::Projects([same("Default", "demo"), same("Other", "x/y")].into())),
        (
            "{ demo = 'Other/demo', 'Default/a b' = 'c' }",
            Accept::Projects(
                [
                    (named("Default", "demo"), named("Other", "demo")),
                    (named("Default", "a b"), named("Default", "c")),
                ]
                .into(),
            ),
        ),
    ] {
        let text = format!("{LEAST}{WITH_LOGIN}[[tokens.accept]]\nfrom = 'Site2'\nprojects = {projects}");
        let config = read(&text).unwrap();
        let tokens = config.tokens.as_ref().unwrap();
        assert_eq!(tokens.accept, [(Site::new("Site2").unwrap(), expected)].into());
        assert_eq!(tokens.login.as_ref().unwrap().project, named("Default", "service"));
        assert!(config.to_string().contains("tokens   honoured of Site2"), "{config}");
    }
}

#[test]
fn what_is_wrong_with_tokens_is_said_where_it_stands() {
    let accept = "[[tokens.accept]]\nprojects = '*'\nfrom = ";
    for (rest, expected) in [
        (format!("{WITH_LOGIN}{accept}'Site3'"), "t.toml:14: no site is called `Site3`"),
        (format!("{WITH_LOGIN}{accept}'Site1'"), "t.toml:14: `tokens.accept[0].from` is this site"),
        (format!("{WITH_LOGIN}{accept}'Site2'\n{accept}'Site2'"), "t.toml:17: `Site2` is accepted twice"),
        (
            format!("{WITH_LOGIN}[[tokens.accept]]\nfrom = 'Site2'\nprojects = 'demo'"),
            "t.toml:14: `tokens.accept[0].projects` cannot be `demo`",
        ),
        (
            format!("{WITH_LOGIN}[[tokens.accept]]\nfrom = 'Site2'\nprojects = ['/x']"),
            "t.toml:14: `tokens.accept[0].projects[0]` cannot be `/x`",
        ),
        (
            format!("{WITH_LOGIN}[[tokens.accept]]\nfrom = 'Site2'"),
            "t.toml:12: `tokens.accept[0].projects` is missing",
        ),
        (WITH_LOGIN.replace("domain = 'Default', ", ""), "t.toml:11: `tokens.login.domain` is missing"),
        (WITH_LOGIN.replace("password_file", "password"), "t.toml:11: unknown key `tokens.login.password`"),
        (
            format!(
                "peers.Site2.address = '127.0.0.1:7402'\nlink.listen = '127.0.0.1:7401'\n{accept}'Site2'"
            ),
            "t.toml:8: `tokens.login` is missing or not whole: users of this site are found with it",
        ),
        (
            format!("{}{accept}'Site2'", WITH_LOGIN.replace("identity.internal", "identity.public")),
            "t.toml:1: `services.identity.internal` is missing: this site's services ask there whether a token is valid",
        ),
    ] {
        let faults = faults_of(&rest);
        assert!(faults.iter().any(|fault| fault == expected), "{expected}\n{faults:#?}");
    }
    let rest = LEAST.replace("openstack", "rest")
        + "tokens.login = { user = 'a', domain = 'b', project = 'c', password_file = 'key.pem' }";
    let faults = read(&rest).unwrap_err().to_string();
    assert!(faults.contains("`tokens` has no use"), "{faults}");
}

#[test]
fn a_fault_of_an_own_profile_is_told_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let profile = "description = 'x'\n[[kinds]]\nname = 'a'\npath = '/a'\nunnamed = ['auto']\n[[fails]]\nstatus = [200]\n";
    fs::write(directory.path().join("mine.toml"), profile).unwrap();
    let text = "site = 'A'\nprofile = 'mine'\nprofiles = '.'\n[services.image]\npublic = ['127.0.0.1:0']\n\
                upstreams = ['http://127.0.0.1:1']\n";
    let faults = Config::read("t.toml", text, directory.path()).unwrap_err().render(scope::Style::Plain);
    assert!(faults.contains("t.toml:2:11") && faults.contains("line 3: the kind `a`: `unnamed`"), "{faults}");
    assert!(faults.contains("the first of 2 faults: see `archipel profile check`"), "{faults}");
}
