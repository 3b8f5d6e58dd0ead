//! What the workflows of GitHub may do: whoever publishes runs no code of dependencies, and
//! published vulnerabilities are looked for. They cannot be run here.

use std::fs;

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools;

/// Their files, by name.
fn workflows() -> Result<Vec<(String, String)>> {
    let folder = tools::workspace().join(".github/workflows");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name, fs::read_to_string(entry.path())?));
    }
    ensure!(!found.is_empty(), "there are no workflows");
    Ok(found)
}

/// The jobs of a workflow, each with its name: what is indented by two blanks begins one.
fn jobs(workflow: &str) -> Result<Vec<String>> {
    let (_, jobs) = workflow.split_once("\njobs:\n").context("there are no jobs")?;
    let mut found: Vec<String> = Vec::new();
    for line in jobs.lines() {
        let is_name = line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
        match found.last_mut() {
            _ if is_name => found.push(format!("{line}\n")),
            Some(job) => {
                job.push_str(line);
                job.push('\n');
            }
            None => {}
        }
    }
    Ok(found)
}

/// What is wrong with a job that may write somewhere, if something is.
fn faults(job: &str) -> Vec<String> {
    if !job.lines().any(|line| line.split('#').next().unwrap_or("").trim_end().ends_with(": write"))
    {
        return Vec::new();
    }
    let mut found = Vec::new();
    for line in job.lines() {
        let line = line.trim();
        let code = line.trim_start_matches("- ").trim_start_matches("run: ");
        if code.starts_with("uses: actions/checkout@") {
            found.push(format!("it checks out code of others: {line}"));
        }
        // What is built or installed is of dependencies, whose scripts would have its identity.
        let builds = ["cargo", "rustup", "npx", "node", "deno run", "pip", "make", "npm", "yarn"];
        let may = ["npm publish --ignore-scripts "];
        if builds.iter().any(|word| code.split_whitespace().next() == Some(word))
            && !may.iter().any(|command| code.starts_with(command))
        {
            found.push(format!("it runs code of dependencies: {line}"));
        }
    }
    found
}

#[test]
fn a_job_that_may_publish_runs_no_code_of_dependencies() -> Result<()> {
    let mut publishing = 0;
    for (name, text) in workflows()? {
        ensure!(text.contains("\npermissions: {}\n"), "{name}: each job gets its own permissions");
        for job in jobs(&text)? {
            let found = faults(&job);
            ensure!(found.is_empty(), "{name}: {found:?}\n{job}");
            publishing += usize::from(job.contains("id-token: write"));
        }
    }
    ensure!(publishing >= 2, "only {publishing} jobs publish: are their permissions read?");
    Ok(())
}

#[test]
fn a_job_that_builds_what_it_publishes_is_found() {
    let job = |permission: &str, step: &str| {
        format!("  npm:\n    permissions:\n      {permission}\n    steps:\n      - {step}\n")
    };
    let publish = "run: npm publish --ignore-scripts --provenance ./x.tgz";
    for (permission, step, is_fault) in [
        ("id-token: write # why", publish, false),
        ("id-token: write", "run: npm publish ./x.tgz", true),
        ("id-token: write", "run: npm ci", true),
        ("contents: write", "uses: actions/checkout@0", true),
        ("contents: write", "run: |\n          cd x\n          cargo xtask test npm", true),
        ("contents: read", "run: npm ci", false),
    ] {
        assert_eq!(!faults(&job(permission, step)).is_empty(), is_fault, "{permission} {step}");
    }
}

/// By the hash of a commit: whoever moves a tag changes nothing.
#[test]
fn actions_are_named_by_their_commit() -> Result<()> {
    for (name, text) in workflows()? {
        for line in text.lines().filter_map(|line| line.split_once("uses: ")) {
            let (_, rest) =
                line.1.split_once('@').with_context(|| format!("{name}: {}", line.1))?;
            let (commit, version) = rest.split_once(" # v").unwrap_or((rest, ""));
            let is_commit = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
            ensure!(is_commit && !version.is_empty(), "{name}: {}", line.1);
        }
    }
    Ok(())
}

#[test]
fn vulnerabilities_that_were_published_are_looked_for_each_week() -> Result<()> {
    let workflows = workflows()?;
    let (_, text) = workflows
        .iter()
        .find(|(name, _)| name == "advisories.yml")
        .context("there is no workflow of advisories")?;
    ensure!(text.contains("    - cron: \"17 4 * * 1\""), "not once a week: {text}");
    for command in ["cargo deny --manifest-path", "npm audit --package-lock-only"] {
        ensure!(text.contains(command), "{command} is missing");
    }
    // Of every lock file that there is.
    for pattern in ["git ls-files \"*Cargo.lock\"", "git ls-files \"*package-lock.json\""] {
        ensure!(text.contains(pattern), "{pattern} is missing");
    }
    let deny = fs::read_to_string(tools::workspace().join("deny.toml"))?;
    ensure!(deny.contains("[advisories]"), "deny.toml says nothing of advisories");
    Ok(())
}
