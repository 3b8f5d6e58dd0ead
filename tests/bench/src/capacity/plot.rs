//! What was predicted beside what was measured.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 470.0;

/// The lines of both axes, which are logarithmic, in µs.
const TICKS: [f64; 9] = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0];

pub(super) struct Point {
    pub(super) predicted: f64,
    pub(super) measured: f64,
    pub(super) is_held_back: bool,
}

pub(super) fn svg(points: &[Point], tolerance: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut add = |text: String| writeln!(svg, "{text}").expect("a string takes all");
    add(format!(
        "<text x=\"{LEFT}\" y=\"24\" font-weight=\"bold\">processor of the server for a token, \
         µs</text>"
    ));
    add(format!("<circle cx=\"{}\" cy=\"41\" r=\"4\" fill=\"#0072b2\"/>", LEFT + 5.0));
    add(format!("<text x=\"{}\" y=\"46\">fitted to</text>", LEFT + 16.0));
    add(format!("<path d=\"{}\" fill=\"#d55e00\"/>", diamond(LEFT + 95.0, 41.0)));
    add(format!(
        "<text x=\"{}\" y=\"46\">held back; within the lines the difference is below {:.0}%</text>",
        LEFT + 106.0,
        tolerance * 100.0
    ));
    for tick in TICKS {
        let (x, y) = (x(tick), y(tick));
        add(format!("<path d=\"M{LEFT} {y:.1}H{RIGHT}M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#ddd\"/>"));
        add(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            LEFT - 6.0,
            y + 4.0
        ));
        add(format!(
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            BOTTOM + 17.0
        ));
    }
    let [least, .., most] = TICKS;
    for (factor, dashes) in [(1.0, "none"), (1.0 + tolerance, "4 4"), (1.0 - tolerance, "4 4")] {
        add(format!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#555\" stroke-dasharray=\"{dashes}\"/>",
            x(least * f64::max(1.0, 1.0 / factor)),
            y(least * f64::max(1.0, factor)),
            x(most * f64::min(1.0, 1.0 / factor)),
            y(most * f64::min(1.0, factor)),
        ));
    }
    for point in points {
        let (x, y) = (x(point.measured), y(point.predicted));
        add(if point.is_held_back {
            format!("<path d=\"{}\" fill=\"#d55e00\"/>", diamond(x, y))
        } else {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#0072b2\"/>")
        });
    }
    add(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured</text>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 38.0
    ));
    add(format!(
        "<text x=\"18\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 18 \
         {0})\">predicted</text>",
        f64::midpoint(TOP, BOTTOM)
    ));
    svg.push_str("</svg>\n");
    svg
}

fn diamond(x: f64, y: f64) -> String {
    format!("M{:.1} {y:.1}l6 -6l6 6l-6 6z", x - 6.0)
}

/// How far along its axis a value is.
fn part(value: f64) -> f64 {
    let [least, .., most] = TICKS.map(f64::ln);
    ((value.ln() - least) / (most - least)).clamp(0.0, 1.0)
}

fn x(value: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * part(value)
}

fn y(value: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * part(value)
}
