//! An hour as a picture: what was measured, by the minute.

use std::fmt::Write as _;

use super::Sample;

const WIDTH: f64 = 900.0;
/// Of a panel; there are two beside each other.
const LEFT: [f64; 2] = [70.0, 520.0];
const ACROSS: f64 = 360.0;
const HEIGHT: f64 = 150.0;
const PITCH: f64 = 215.0;
const TOP: f64 = 40.0;

/// Everybody can tell them apart (Okabe and Ito).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// The least part of the axis that is between two of its lines.
const LINES: f64 = 4.0;

type Curve = (&'static str, fn(&Sample) -> f64);

/// The panels: title, and curves with their names.
const PANELS: [(&str, &[Curve]); 6] = [
    (
        "a second",
        &[("registrations", |sample| sample.registered), ("mails sent", |sample| sample.sent)],
    ),
    (
        "seconds from the registration to the mail",
        &[("of half of them", |sample| sample.median), ("of 99%", |sample| sample.p99)],
    ),
    ("database, MB", &[("tables", |sample| sample.tables), ("indexes", |sample| sample.indexes)]),
    ("dead rows", &[("in all tables", |sample| sample.dead_rows)]),
    (
        "memory of a process, MB",
        &[("collector", |sample| sample.collector), ("sender", |sample| sample.sender)],
    ),
    (
        "a collector and its sender",
        &[("open files", |sample| sample.descriptors), ("journal, MB", |sample| sample.journal)],
    ),
];

pub(super) fn svg(samples: &[Sample]) -> String {
    let rows = 3.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        TOP + rows * PITCH
    );
    let minutes = samples.last().map_or(1.0, |sample| sample.minute).ceil();
    for (number, (title, curves)) in (0_u8..).zip(PANELS) {
        let most = samples
            .iter()
            .flat_map(|sample| curves.iter().map(|(_, figure)| figure(sample)))
            .fold(0.0, f64::max);
        let panel = Panel {
            left: LEFT[usize::from(number % 2)],
            top: TOP + f64::from(number / 2) * PITCH,
            minutes,
            unit: unit(most),
        };
        panel.frame(&mut svg, title);
        for (place, ((name, figure), colour)) in (0_u8..).zip(curves.iter().zip(COLOURS)) {
            panel.legend(&mut svg, place, name, colour);
            panel.curve(&mut svg, samples, *figure, colour);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// What is between two lines of an axis to a most value: one, two or five of a power of ten.
fn unit(most: f64) -> f64 {
    let least = (most / LINES).max(1e-3);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|unit| *unit >= least * 0.999)
        .unwrap_or(10.0 * power)
}

struct Panel {
    left: f64,
    top: f64,
    minutes: f64,
    unit: f64,
}

impl Panel {
    fn frame(&self, svg: &mut String, title: &str) {
        let (left, right, bottom) = (self.left, self.left + ACROSS, self.top + HEIGHT);
        let y = self.top - 8.0;
        line(svg, &format!("<text x=\"{left}\" y=\"{y}\" font-weight=\"bold\">{title}</text>"));
        for step in 0..=4_u8 {
            let value = f64::from(step) * self.unit;
            let y = self.y(value);
            line(svg, &format!("<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>"));
            let (x, y) = (left - 6.0, y + 4.0);
            let value = (value * 1e6).round() / 1e6;
            line(svg, &format!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{value}</text>"));
        }
        let step = unit(self.minutes);
        let mut minute = 0.0;
        while minute <= self.minutes {
            let (x, y) = (self.x(minute), bottom + 17.0);
            let top = self.top;
            line(svg, &format!("<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#ddd\"/>"));
            let text =
                format!("<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{minute}</text>");
            line(svg, &text);
            minute += step;
        }
        let (x, y) = (right, bottom + 32.0);
        line(svg, &format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">minutes</text>"));
    }

    fn legend(&self, svg: &mut String, place: u8, name: &str, colour: &str) {
        let (x, y) = (self.left + 130.0 * f64::from(place), self.top + HEIGHT + 34.0);
        line(svg, &format!("<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">&#9632; {name}</text>"));
    }

    fn curve(
        &self,
        svg: &mut String,
        samples: &[Sample],
        figure: fn(&Sample) -> f64,
        colour: &str,
    ) {
        let mut path = String::new();
        for sample in samples {
            let begin = if path.is_empty() { 'M' } else { 'L' };
            let (x, y) = (self.x(sample.minute), self.y(figure(sample)));
            write!(path, "{begin}{x:.1} {y:.1}").expect("a string takes all that is written");
        }
        line(
            svg,
            &format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"),
        );
    }

    fn x(&self, minute: f64) -> f64 {
        self.left + ACROSS * minute / self.minutes
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (1.0 - value / (LINES * self.unit))
    }
}

fn line(svg: &mut String, text: &str) {
    svg.push_str(text);
    svg.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_axis_are_round_and_reach_above_the_most() {
        for (most, wanted) in [(0.0, 0.001), (3.9, 1.0), (4.1, 2.0), (2_000.0, 500.0), (61.0, 20.0)]
        {
            assert!((unit(most) - wanted).abs() < 1e-9, "{most}: {}", unit(most));
            assert!(unit(most) * LINES >= most);
        }
    }
}
