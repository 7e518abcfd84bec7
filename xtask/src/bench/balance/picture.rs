//! A chart of the fraction of offered datagrams that are lost, as SVG with its own background, so
//! that it is readable on light and dark pages.

use std::fmt::Write;

/// The results of one proxy at several rates.
pub(super) struct Line {
    pub(super) name: String,
    /// Datagrams offered per second, and the fraction of them that was lost.
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
/// The edges of the chart's plot area.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 830.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 370.0;
/// The rates at both ends of the logarithmic axis.
const RATES: (f64, f64) = (8e3, 2e6);
/// The rates that are labeled on the axis.
const MARKED: [(f64, &str); 8] = [
    (10e3, "10,000"),
    (20e3, "20,000"),
    (50e3, "50,000"),
    (100e3, "100,000"),
    (200e3, "200,000"),
    (500e3, "500,000"),
    (1e6, "1,000,000"),
    (2e6, ""),
];

/// The style of each line: its color, its dashes, and the radius of its points.
const LOOKS: [(&str, &str, f64); 3] =
    [("#ec6a5e", "none", 6.0), ("#f4bf4f", "7 6", 3.5), ("#8fd3ff", "none", 4.5)];

const TITLE: &str = "Datagrams offered and datagrams lost";

/// Draws the lines, each in its own style.
pub(super) fn draw(lines: &[Line; 3]) -> String {
    let said: Vec<String> = lines.iter().map(summary).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}. {}\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\" fill=\"#15191f\"/>\n\
         <g font-family=\"system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif\" \
         font-size=\"14\" fill=\"#d7dde5\">\n",
        escaped(TITLE),
        escaped(&said.join(" ")),
    );
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"34\" font-size=\"16\">{}</text>", escaped(TITLE));
    axes(&mut svg);
    for (index, (line, look)) in lines.iter().zip(LOOKS).enumerate() {
        curve(&mut svg, line, look);
        legend(&mut svg, index, line, look);
    }
    svg + "</g></svg>\n"
}

fn axes(svg: &mut String) {
    for percent in [0, 20, 40, 60, 80, 100] {
        let y = y(f64::from(percent) / 100.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#2e3640\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#9aa5b1\">{percent} %</text>",
            LEFT - 10.0,
            y + 5.0
        );
    }
    for (rate, text) in MARKED {
        let x = x(rate);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#2e3640\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#9aa5b1\">{text}</text>",
            BOTTOM + 22.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">datagrams of 1,200 bytes offered \
         per second</text>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 50.0
    );
    let middle = f64::midpoint(TOP, BOTTOM);
    let _ = writeln!(
        svg,
        "<text x=\"22\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 22 \
         {middle:.1})\">lost</text>"
    );
}

fn curve(svg: &mut String, line: &Line, (colour, dashes, radius): (&str, &str, f64)) {
    let at: Vec<(f64, f64)> = line.points.iter().map(|(rate, lost)| (x(*rate), y(*lost))).collect();
    let points: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" \
         stroke-dasharray=\"{dashes}\"/>",
        points.join(" ")
    );
    for (x, y) in at {
        let _ =
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>");
    }
}

/// Draws the legend in the upper left, where there are no lines because no datagrams are lost at
/// low rates.
fn legend(
    svg: &mut String,
    index: usize,
    line: &Line,
    (colour, dashes, radius): (&str, &str, f64),
) {
    let (x, y) = (LEFT + 20.0, TOP + 26.0 + 24.0 * index as f64);
    let _ = writeln!(
        svg,
        "<path d=\"M{x} {y}h40\" stroke=\"{colour}\" stroke-width=\"2.5\" \
         stroke-dasharray=\"{dashes}\"/><circle cx=\"{}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>\
         <text x=\"{}\" y=\"{}\">{}</text>",
        x + 20.0,
        x + 50.0,
        y + 5.0,
        escaped(&line.name)
    );
}

/// Returns a text alternative for the chart.
fn summary(line: &Line) -> String {
    let Line { name, points } = line;
    let without = points.iter().filter(|(_, lost)| *lost < 0.005).map(|(rate, _)| *rate);
    let least = without.fold(0.0, f64::max);
    let last = points.last().copied().unwrap_or_default();
    format!(
        "{name}: less than 0.5 % is lost up to {least:.0} datagrams per second; at {:.0} per \
         second, {:.0} % is lost.",
        last.0,
        last.1 * 100.0
    )
}

fn x(rate: f64) -> f64 {
    let (least, most) = RATES;
    let part = (rate.clamp(least, most) / least).ln() / (most / least).ln();
    LEFT + part * (RIGHT - LEFT)
}

fn y(lost: f64) -> f64 {
    BOTTOM - lost.clamp(0.0, 1.0) * (BOTTOM - TOP)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, capacity: f64) -> Line {
        let rates = [10e3, 40e3, 100e3, 1600e3];
        let point = |rate: f64| (rate, 1.0 - (capacity / rate).min(1.0));
        Line { name: name.to_owned(), points: rates.map(point).into() }
    }

    fn drawn() -> String {
        draw(&[line("a loop", 45e3), line("\"more\" & <more>", 45e3), line("ours", 2e6)])
    }

    #[test]
    fn all_points_are_within_the_axes() {
        let svg = drawn();
        let lines: Vec<&str> =
            svg.lines().filter_map(|it| it.strip_prefix("<polyline points=\"")).collect();
        assert_eq!(lines.len(), 3);
        for line in &lines {
            let points = line.split('"').next().unwrap();
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                assert!((LEFT..=RIGHT).contains(&x.parse().unwrap()), "{point}");
                assert!((TOP..=BOTTOM).contains(&y.parse().unwrap()), "{point}");
            }
        }
        // The loop loses 55 % of 100,000 datagrams; the balancer loses none.
        assert!(lines[0].contains(&format!("{:.1},{:.1}", x(100e3), y(0.55))));
        assert!(lines[2].contains(&format!("{:.1},{BOTTOM:.1}", x(1600e3))));
    }

    #[test]
    fn names_are_escaped_and_said_in_words() {
        let svg = drawn();
        assert!(svg.contains(">&quot;more&quot; &amp; &lt;more></text>"));
        let said = "a loop: less than 0.5 % is lost up to 40000 datagrams per second; at 1600000 \
            per second, 97 % is lost.";
        assert!(svg.contains(said), "{svg}");
        assert_eq!(svg.matches("<text").count(), 1 + 6 + MARKED.len() + 2 + 3);
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn rates_beyond_the_axis_stay_at_its_end() {
        assert_eq!((x(1.0), x(1e9)), (LEFT, RIGHT));
        assert_eq!((y(-0.1), y(1.5)), (BOTTOM, TOP));
    }
}
