//! The processor time that a token takes of PostgreSQL: a model that is fitted to some runs, and
//! how far it is from others that it was not fitted to.

mod model;
mod plan;
mod plot;
mod processor;
mod run;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::tools::workspace;
use serde_json::{Map, json};

use self::model::{PARTS, fit, parts, predict};
use self::plan::{GRID, HELD_BACK};
use self::plot::Point;
use self::run::{Measured, Setting, run};
use crate::report::{Report, Table, median, rounded};

/// How far a prediction may be from what is measured.
const TOLERANCE: f64 = 0.15;

/// Users of each run have numbers of their own.
const USERS_OF_A_RUN: i64 = 1_000_000;

const FILL: &str = include_str!("fill.sql");

#[derive(clap::Args)]
pub(crate) struct Capacity {
    /// How many rounds each run gets; they take turns, and the medians count
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Where to write the plot; docs/pictures/capacity.svg unless given
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The rounds of one run.
struct Figures {
    name: &'static str,
    setting: Setting,
    is_held_back: bool,
    rounds: Vec<Measured>,
}

impl Figures {
    fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(&self.rounds.iter().map(figure).collect::<Vec<_>>())
    }
}

pub(crate) async fn measure(server: &Cluster, options: &Capacity) -> Result<Report> {
    let plan = GRID.map(|run| (run, false)).into_iter();
    let plan = plan.chain(HELD_BACK.map(|run| (run, true)));
    let mut all: Vec<Figures> = plan
        .map(|((name, setting), is_held_back)| Figures {
            name,
            setting,
            is_held_back,
            rounds: Vec::new(),
        })
        .collect();
    let mut databases: Vec<(u32, Database)> = Vec::new();
    for figures in &all {
        let rows = figures.setting.rows;
        if databases.iter().all(|(known, _)| *known != rows) {
            eprintln!("making {rows} tokens ...");
            databases.push((rows, filled(server, rows).await?));
        }
    }
    let mut first_user = 2 * USERS_OF_A_RUN;
    for number in 1..=options.rounds {
        for figures in &mut all {
            let rows = figures.setting.rows;
            let database = databases.iter().find(|(known, _)| *known == rows);
            let (_, database) = database.context("every run has a database")?;
            let measured = run(server, database, &figures.setting, first_user).await?;
            first_user += USERS_OF_A_RUN;
            let (name, rounds) = (figures.name, options.rounds);
            eprintln!("round {number} of {rounds}, {name}: {measured}");
            figures.rounds.push(measured);
        }
    }
    report(server, options, &all)
}

/// A database of a product with its own table of users, after so many registrations.
async fn filled(server: &Cluster, rows: u32) -> Result<Database> {
    let database =
        Database::create_on(&server.url("postgres"))?.migrate_with(&["--without-accounts"])?;
    let client = database.connect().await?;
    let adoption = workspace().join("docs/examples/users.sql");
    client.batch_execute(&fs::read_to_string(adoption)?).await?;
    // One by one: VACUUM runs in no transaction.
    for statement in FILL.replace("ROWS", &rows.to_string()).split(";\n") {
        client.batch_execute(statement).await.with_context(|| statement.trim().to_owned())?;
    }
    Ok(database)
}

fn report(server: &Cluster, options: &Capacity, all: &[Figures]) -> Result<Report> {
    let yardsticks = all.iter().flat_map(|figures| &figures.rounds).map(|round| round.yardstick);
    let yardstick = median(&yardsticks.collect::<Vec<_>>());
    // Not by the yardstick of each run: on a busy machine that differs by three times from run to
    // run, and what is measured by a fifth. In turns, all runs get slow and fast minutes alike.
    let server_time = |figures: &Figures| figures.median(|round| round.server);
    let fitted_to = all.iter().filter(|figures| !figures.is_held_back);
    let runs: Vec<_> =
        fitted_to.map(|figures| (parts(&figures.setting), server_time(figures))).collect();
    let costs = fit(&runs).context("each part of the model has a run")?;

    let (version, rounds) = (server.installation().major, options.rounds);
    let title = format!("processor for a token, µs, PostgreSQL {version}, median of {rounds}");
    let headings: [&dyn std::fmt::Display; 5] =
        [&"predicted", &"measured", &"difference", &"collectors", &"log, bytes"];
    let mut table = Table::new(&title, &headings);
    let (mut points, mut json) = (Vec::new(), Map::new());
    for is_held_back in [false, true] {
        table.heading(if is_held_back { "held back" } else { "fitted to" });
        for figures in all.iter().filter(|figures| figures.is_held_back == is_held_back) {
            let predicted = predict(&costs, &parts(&figures.setting));
            let measured = server_time(figures);
            let percent = rounded((predicted / measured - 1.0) * 100.0, 1);
            let collector = rounded(figures.median(|round| round.collectors), 1);
            let log = rounded(figures.median(|round| round.log_bytes), 0);
            let shown = [predicted, measured].map(|figure| rounded(figure, 1));
            let difference = format!("{percent:+}%");
            table.row(figures.name, &[&shown[0], &shown[1], &difference, &collector, &log]);
            json.insert(
                figures.name.to_owned(),
                json!({
                    "is_held_back": is_held_back,
                    "predicted_us": shown[0],
                    "measured_us": shown[1],
                    "difference_percent": percent,
                    "collectors_us": collector,
                    "log_bytes": log,
                }),
            );
            points.push(Point { predicted, measured, is_held_back });
        }
    }
    table.heading("the model: µs of the server for");
    let mut model = Map::new();
    for ((key, name), cost) in PARTS.into_iter().zip(costs) {
        table.row(name, &[&rounded(cost, 1)]);
        model.insert(key.to_owned(), json!(rounded(cost, 1)));
    }
    table.row("(the yardstick: enqueue, and roll back)", &[&rounded(yardstick, 1)]);

    let path = options.plot.clone();
    let path = path.unwrap_or_else(|| workspace().join("docs/pictures/capacity.svg"));
    fs::write(&path, plot::svg(&points, TOLERANCE))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let json = json!({
        "postgres": version,
        "rounds": rounds,
        "yardstick_us": rounded(yardstick, 1),
        "model": model,
        "runs": json,
    });
    Ok(Report { table, json })
}
