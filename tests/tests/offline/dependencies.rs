//! Every dependency keeps to `deny.toml`: its licence, where it comes from, how it is asked for.
//!
//! `cargo deny check` reads the same file, but has hundreds of dependencies of its own to compile
//! first. What it knows besides, published vulnerabilities, comes from the network and changes by
//! the day, so that it is no part of a suite that must be repeatable.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools;
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

/// The only registry.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn policy() -> Result<Value> {
    Ok(toml::from_str(&std::fs::read_to_string(tools::workspace().join("deny.toml"))?)?)
}

/// A list of texts in `deny.toml`.
fn list<'a>(policy: &'a Value, section: &str, name: &str) -> Result<Vec<&'a str>> {
    let list = policy[section][name].as_array().with_context(|| format!("{name} is no list"))?;
    Ok(list.iter().filter_map(Value::as_str).collect())
}

/// The packages that are compiled for any target of the policy, Mailroom's own among them.
fn packages(policy: &Value) -> Result<Vec<Value>> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--format-version", "1", "--locked"]).current_dir(tools::workspace());
    for target in list(policy, "graph", "targets")? {
        command.args(["--filter-platform", target]);
    }
    let output = command.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?.clone();
    ensure!(packages.len() > 50, "cargo lists {} packages", packages.len());
    Ok(packages)
}

fn is_allowed(license: &str, allowed: &[Licensee]) -> Result<bool> {
    let license = Expression::parse_mode(license, ParseMode::LAX)
        .map_err(|error| anyhow::anyhow!("`{license}` is no licence: {}", error.reason))?;
    Ok(license.evaluate(|wanted| allowed.iter().any(|allowed| allowed.satisfies(wanted))))
}

fn allowed(policy: &Value) -> Result<Vec<Licensee>> {
    let allowed = list(policy, "licenses", "allow")?;
    allowed.into_iter().map(|name| Licensee::parse(name).context("no licence")).collect()
}

#[test]
fn every_licence_is_one_of_those_allowed() -> Result<()> {
    let policy = policy()?;
    let allowed = allowed(&policy)?;
    for package in packages(&policy)? {
        let license =
            package["license"].as_str().with_context(|| format!("{} has none", package["id"]))?;
        assert!(is_allowed(license, &allowed)?, "{}: {license}", package["id"]);
    }
    Ok(())
}

#[test]
fn a_licence_needs_all_of_its_parts_or_one_of_its_choices() -> Result<()> {
    let allowed = allowed(&policy()?)?;
    for license in
        ["MIT", "GPL-3.0-only OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0-only) AND Unicode-3.0"]
    {
        assert!(is_allowed(license, &allowed)?, "{license}");
    }
    for license in
        ["GPL-3.0-only", "MIT AND GPL-3.0-only", "MPL-2.0", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(!is_allowed(license, &allowed)?, "{license}");
    }
    assert!(is_allowed("free", &allowed).is_err());
    Ok(())
}

#[test]
fn everything_comes_from_this_repository_or_the_one_registry() -> Result<()> {
    let policy = policy()?;
    for rule in ["unknown-git", "unknown-registry"] {
        assert_eq!(policy["sources"][rule].as_str(), Some("deny"));
    }
    for package in packages(&policy)? {
        assert!(package["source"].is_null() || package["source"] == CRATES_IO, "{}", package["id"]);
    }
    Ok(())
}

#[test]
fn no_dependency_is_asked_for_in_any_version_at_all() -> Result<()> {
    let policy = policy()?;
    assert_eq!(policy["bans"]["wildcards"].as_str(), Some("deny"));
    for package in packages(&policy)? {
        for dependency in package["dependencies"].as_array().context("a list")? {
            let is_ours = package["source"].is_null();
            let is_wildcard = dependency["req"] == "*" && dependency["path"].is_null();
            assert!(!(is_ours && is_wildcard), "{} of {}", dependency["name"], package["id"]);
        }
    }
    Ok(())
}
