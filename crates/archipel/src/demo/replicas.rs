//! Scenarios of replicated resources: one identifier, every replica, nothing lost.

use http::Method;
use serde_json::json;

use super::client::Answer;
use super::story::{Story, check, expect, ms, served_by};

const THREE: &str = "image: Site1 & Site2 & Site3";

/// An image with content at three sites, under one id.
fn replicated(story: &mut Story<'_>, name: &str) -> Result<String, String> {
    let body = format!("{{\"name\":\"{name}\"}}");
    let created = story.ask("POST", (0, "image"), "/images", Some(THREE), Some(&body))?;
    expect(&created, 201)?;
    let id = created.text("id");
    until_each(story, &[1], &format!("/images/{id}"), |answer| answer.status == 200)?;
    let uploaded = story.ask("PUT", (1, "image"), &format!("/images/{id}/file"), None, Some("debian"))?;
    expect(&uploaded, 200)?;
    Ok(id)
}

pub(super) fn replicate(story: &mut Story<'_>) -> Result<(), String> {
    let began = std::time::Instant::now();
    let id = replicated(story, "debian-everywhere")?;
    until_own(story, &[0, 1, 2], &id)?;
    story.tell(&format!(
        "  created at Site1, uploaded at Site2; all three have it after {}",
        ms(began.elapsed())
    ));
    story.while_cut(&[0, 1, 2], |story| {
        story.tell("  each site alone boots a server from it, by the same id:");
        for site in 0..3 {
            let server = story.boot(site, &id, None)?;
            expect(&server, 201)?;
            served_by(&server, &format!("compute@Site{}", site + 1))?;
        }
        Ok(())
    })
}

pub(super) fn both_sides(story: &mut Story<'_>) -> Result<(), String> {
    let id = replicated(story, "debian-12")?;
    let path = format!("/images/{id}");
    until_own(story, &[0, 1, 2], &id)?;
    story.while_cut(&[2], |story| {
        story.tell("  Site1 gives it a new name, and Site3, cut off, a new file:");
        let renamed = story.ask("PATCH", (0, "image"), &path, None, Some("{\"name\":\"debian-13\"}"))?;
        expect(&renamed, 200)?;
        pending(&renamed, "Site3")?;
        let filled = story.ask("PUT", (2, "image"), &format!("{path}/file"), None, Some("trixie"))?;
        expect(&filled, 200)?;
        pending(&filled, "Site1")?;
        let gone = filled.header("scope-operation").to_owned();
        check(!gone.is_empty(), || "the answer does not say where to ask what became of it".to_owned())
    })?;
    let began = std::time::Instant::now();
    until_each(story, &[0, 1, 2], &path, |answer| answer.text("name") == "debian-13")?;
    until_each(story, &[0, 1, 2], &format!("{path}/file"), |answer| answer.body == "trixie")?;
    story.tell(&format!("  joined again, all three have both after {}:", ms(began.elapsed())));
    for site in 0..3 {
        let shown = story.ask("GET", (site, "image"), &path, None, None)?;
        story.tell(&format!("  {}", String::from_utf8_lossy(&shown.body)));
        served_by(&shown, &format!("image@Site{}", site + 1))?;
    }
    Ok(())
}

pub(super) fn extend(story: &mut Story<'_>) -> Result<(), String> {
    let id = replicated(story, "debian-extended")?;
    let began = std::time::Instant::now();
    let path = format!("/v1/replicas/image%3A%2Fimages%2F{id}/extend");
    let order = (Method::POST, path.as_str(), Some(json!({ "site": "Site4" })));
    story.order(0, &format!("replicas extend image:/images/{id} --to Site4"), order)?;
    until_own(story, &[3], &id)?;
    story.tell(&format!("  Site4 has it, copied from a replica, after {}", ms(began.elapsed())));
    let server = story.boot(3, &id, None)?;
    expect(&server, 201)?;
    story.tell("  lists of all four have one id:");
    for site in 0..4 {
        until_own(story, &[site], &id)?;
        let listed = story.ask("GET", (site, "image"), "/images", None, None)?;
        expect(&listed, 200)?;
        let text = String::from_utf8_lossy(&listed.body).into_owned();
        check(text.matches(&id).count() == 1, || format!("Site{} does not list it once: {text}", site + 1))?;
    }
    let deleted = story.ask("DELETE", (3, "image"), &format!("/images/{id}"), None, None)?;
    expect(&deleted, 204)?;
    until_each(story, &[0, 1, 2, 3], &format!("/images/{id}"), |answer| answer.status == 404)
}

/// Waits until these sites have the image and its content themselves: until then each answers from another replica.
fn until_own(story: &Story<'_>, sites: &[usize], id: &str) -> Result<(), String> {
    let path = format!("/images/{id}/file");
    for site in sites {
        let own = format!("image@Site{}", site + 1);
        until_each(story, &[*site], &path, |answer| {
            answer.body == "debian" && answer.header("x-served-by") == own
        })?;
    }
    Ok(())
}

/// Waits until these sites, asked without a scope, answer so.
fn until_each(
    story: &Story<'_>,
    sites: &[usize],
    path: &str,
    holds: impl Fn(&Answer) -> bool,
) -> Result<(), String> {
    for site in sites {
        let to = story.world.address(*site, "image")?;
        story.until(&format!("Site{} has {path} as the others do", site + 1), |_| {
            Ok(holds(&story.client.ask("GET", to, path, &[], None)?))
        })?;
    }
    Ok(())
}

/// Checks that an answer says what a site still has to do.
fn pending(answer: &Answer, site: &str) -> Result<(), String> {
    let sites = answer.header("scope-sites");
    check(sites.contains(&format!("\"{site}\";pending")), || {
        format!("{} does not say that {site} is pending: {sites}", answer.command)
    })
}
