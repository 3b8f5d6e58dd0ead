//! A sum of costs that is linear in what a run does, and its fit by least squares.

use super::run::Setting;

/// What a run does for each token; the model has a cost for each.
pub(super) const PARTS: [(&str, &str); 8] = [
    ("register", "registering a user with a mail"),
    ("payload_kb", "1,000 bytes of payload"),
    ("deliver", "delivering a mail"),
    ("batch", "a batch of mails"),
    ("redeem", "using a link"),
    ("doubling", "tables twice as large, above 20,000 tokens"),
    ("further_collector", "a collector more while users register"),
    ("crowd", "visitors twice as many, above four"),
];

pub(super) type Parts = [f64; PARTS.len()];

/// How much there is of each part, for a token.
pub(super) fn parts(setting: &Setting) -> Parts {
    let is = |condition: bool| f64::from(u8::from(condition));
    let registered = is(!setting.is_backlog);
    let delivered = is(setting.collectors > 0);
    // While users register, each collector claims as soon as there is something, so that several
    // make more claims. Of what waits already, each takes as many as it may.
    let further_collectors = f64::from(setting.collectors.saturating_sub(1));
    [
        registered,
        registered * f64::from(setting.payload) / 1_000.0,
        delivered,
        delivered / f64::from(setting.batch_limit),
        is(setting.visitors > 0),
        registered * (f64::from(setting.rows) / 20_000.0).log2(),
        registered * further_collectors,
        (f64::from(setting.visitors) / 4.0).max(1.0).log2(),
    ]
}

pub(super) fn predict(costs: &Parts, parts: &Parts) -> f64 {
    costs.iter().zip(parts).map(|(cost, part)| cost * part).sum()
}

/// The costs whose predictions have the least squares of relative differences.
pub(super) fn fit(runs: &[(Parts, f64)]) -> Option<Parts> {
    const COUNT: usize = PARTS.len();
    // The normal equations, with their right side in the last column.
    let mut rows = [[0.0; COUNT + 1]; COUNT];
    for (parts, measured) in runs {
        let weight = measured.powi(-2);
        for (row, part) in rows.iter_mut().zip(parts) {
            for (cell, other) in row.iter_mut().zip(parts.iter().chain([measured])) {
                *cell += weight * part * other;
            }
        }
    }
    for column in 0..COUNT {
        let pivot = (column..COUNT)
            .max_by(|one, other| rows[*one][column].abs().total_cmp(&rows[*other][column].abs()))?;
        rows.swap(column, pivot);
        let chosen = rows[column];
        if chosen[column].abs() < 1e-12 {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(number, _)| *number != column) {
            let factor = row[column] / chosen[column];
            for (cell, other) in row.iter_mut().zip(chosen) {
                *cell -= factor * other;
            }
        }
    }
    let mut costs = [0.0; COUNT];
    for (number, (cost, row)) in costs.iter_mut().zip(rows).enumerate() {
        *cost = row[COUNT] / row[number];
    }
    Some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_found_where_all_runs_follow_them() {
        let costs = [50.0, 5.0, 8.0, 30.0, 90.0, 4.0, 12.0, 7.0];
        let mut runs = Vec::new();
        for number in 0..24_u8 {
            let bit = |bit: u8| f64::from(number >> bit & 1);
            let some = |of: u8| f64::from(number % of);
            let batch = 1.0 / f64::from(number + 1);
            let parts = [bit(0), bit(1), 1.0, batch, bit(3), some(5), some(3), some(7)];
            runs.push((parts, predict(&costs, &parts)));
        }
        for (found, cost) in fit(&runs).unwrap().into_iter().zip(costs) {
            assert!((found - cost).abs() < 1e-6, "{found} is not {cost}");
        }
    }

    #[test]
    fn what_no_run_does_has_no_cost() {
        let mut alone = [0.0; PARTS.len()];
        alone[0] = 1.0;
        assert_eq!(fit(&[(alone, 5.0), (alone, 6.0)]), None);
    }
}
