//! The day as a picture: the mails, when they were sent, and the calls of the sender,
//! by the time of day.

use std::fmt::Write as _;

use super::{Call, Outcome};
use crate::report::percentile;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 880.0;
/// Of a panel, and from the top of one to that of the next.
const HEIGHT: f64 = 170.0;
const PITCH: f64 = 220.0;
const TOP: f64 = 140.0;

/// A point of a curve is of so many minutes.
const BIN: usize = 10;
const BINS: usize = 24 * 60 / BIN;

/// Of the settings, in their order; everybody can tell them apart (Okabe and Ito).
const COLOURS: [&str; 5] = ["#d55e00", "#e69f00", "#cc79a7", "#009e73", "#0072b2"];

/// The panels: title, and the lines of a logarithmic axis from the least to the most.
const PANELS: [(&str, &[(f64, &str)]); 3] = [
    (
        "mails that become due, a minute",
        &[(1.0, "1"), (10.0, "10"), (100.0, "100"), (1_000.0, "1000"), (10_000.0, "10000")],
    ),
    (
        "within how many seconds 99% of them were sent",
        &[
            (0.1, "0.1"),
            (1.0, "1"),
            (10.0, "10"),
            (100.0, "100"),
            (1_000.0, "1000"),
            (10_000.0, "10000"),
        ],
    ),
    (
        "calls of the sender, a minute",
        &[(1.0, "1"), (10.0, "10"), (100.0, "100"), (1_000.0, "1000")],
    ),
];

pub(super) fn svg(outcomes: &[Outcome]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        TOP + 3.0 * PITCH
    );
    for (number, (outcome, colour)) in outcomes.iter().zip(COLOURS).enumerate() {
        let (y, name, figures) = (20 + 19 * number, outcome.name, outcome.figures());
        line(
            &mut svg,
            &format!("<text x=\"{LEFT}\" y=\"{y}\" fill=\"{colour}\">&#9632; {name}</text>"),
        );
        line(&mut svg, &format!("<text x=\"290\" y=\"{y}\">{figures}</text>"));
    }
    for (number, (title, ticks)) in (0_u8..).zip(PANELS) {
        let panel = Panel { top: TOP + f64::from(number) * PITCH, ticks };
        panel.frame(&mut svg, title);
        match number {
            0 => panel.curve(&mut svg, &outcomes[0].by_due(|times| a_minute(times.len())), "#555"),
            1 => {
                for (outcome, colour) in outcomes.iter().zip(COLOURS) {
                    panel.curve(&mut svg, &outcome.by_due(|times| percentile(times, 99)), colour);
                }
            }
            _ => {
                for (outcome, colour) in outcomes.iter().zip(COLOURS) {
                    panel.curve(&mut svg, &outcome.calls_a_minute(), colour);
                }
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, text: &str) {
    svg.push_str(text);
    svg.push('\n');
}

fn a_minute(count: usize) -> f64 {
    number(count) / number(BIN)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The bin of a time of the day; what is sent on the next day is in the last one.
fn bin(time: std::time::Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap_or(usize::MAX).div_euclid(60 * BIN).min(BINS - 1)
}

impl Outcome {
    /// A figure of the seconds that mails took, by when they were due.
    fn by_due(&self, figure: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let mut bins = vec![Vec::new(); BINS];
        for call in &self.calls {
            for (due, time) in call.due.iter().zip(call.times()) {
                bins[bin(*due)].push(time.as_secs_f64());
            }
        }
        bins.iter().map(|times| figure(times)).collect()
    }

    fn calls_a_minute(&self) -> Vec<f64> {
        let mut bins = vec![0; BINS];
        for Call { answered, .. } in &self.calls {
            bins[bin(*answered)] += 1;
        }
        bins.into_iter().map(a_minute).collect()
    }
}

struct Panel {
    top: f64,
    ticks: &'static [(f64, &'static str)],
}

impl Panel {
    fn frame(&self, svg: &mut String, title: &str) {
        let (top, bottom) = (self.top, self.top + HEIGHT);
        line(
            svg,
            &format!("<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{title}</text>", top - 8.0),
        );
        for (value, name) in self.ticks {
            let y = self.y(*value);
            line(svg, &format!("<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/>"));
            line(
                svg,
                &format!(
                    "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                    LEFT - 6.0,
                    y + 4.0
                ),
            );
        }
        for hour in (0..=24_u8).step_by(3) {
            let x = LEFT + (RIGHT - LEFT) * f64::from(hour) / 24.0;
            line(svg, &format!("<path d=\"M{x} {top}V{bottom}\" stroke=\"#ddd\"/>"));
            line(
                svg,
                &format!(
                    "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{hour}:00</text>",
                    bottom + 17.0
                ),
            );
        }
    }

    fn curve(&self, svg: &mut String, values: &[f64], colour: &str) {
        let mut path = String::new();
        for (index, value) in values.iter().enumerate() {
            let x = LEFT + (RIGHT - LEFT) * (number(index) + 0.5) / number(BINS);
            let begin = if path.is_empty() { 'M' } else { 'L' };
            write!(path, "{begin}{x:.1} {:.1}", self.y(*value))
                .expect("a string takes all that is written");
        }
        line(
            svg,
            &format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"),
        );
    }

    /// Where a value is; at the edge if it is beyond.
    fn y(&self, value: f64) -> f64 {
        let [from, to] =
            [self.ticks[0], self.ticks[self.ticks.len() - 1]].map(|(value, _)| value.log10());
        let part = (value.log10().max(from) - from) / (to - from);
        self.top + HEIGHT * (1.0 - part.min(1.0))
    }
}
