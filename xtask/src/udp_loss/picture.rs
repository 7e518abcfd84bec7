//! A chart of each proxy's packet loss over time, with the time of the doctor's verdict. It is an
//! SVG with its own background, so that it is readable on light and dark pages.

use std::fmt::Write;
use std::time::Duration;

/// The time step that a bar represents.
pub(super) const STEP: Duration = Duration::from_millis(100);

/// The chart data of one proxy.
pub(super) struct Panel {
    pub(super) title: String,
    /// Number of datagrams lost in each time step.
    pub(super) lost: Vec<u64>,
    /// The time in seconds during which datagrams arrived.
    pub(super) seconds: f64,
    /// The time until the first datagram was lost.
    pub(super) first_lost: Option<Duration>,
    /// The time of the doctor's verdict in seconds, and the verdict.
    pub(super) verdict: (f64, String),
    /// Whether the verdict says that datagrams are lost.
    pub(super) has_loss: bool,
}

const WIDTH: f64 = 860.0;
/// The edges of the chart's plot area.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 830.0;
/// The top of the first panel's axes, the height of each panel, and the distance between panels.
const TOP: f64 = 84.0;
const HEIGHT: f64 = 92.0;
const DISTANCE: f64 = 156.0;
/// The height of the area below the last panel.
const FOOT: f64 = 62.0;

const LOSS: &str = "#ec6a5e";
const GOOD: &str = "#61c554";
const QUIET: &str = "#9aa5b1";
const GRID: &str = "#2e3640";

const TITLE: &str = "Datagrams lost at the proxy's socket per 100 ms";

/// Draws the panels one below the other, with the same axes.
pub(super) fn draw(panels: &[Panel]) -> String {
    let said: Vec<String> = panels.iter().map(|panel| format!("{}.", summary(panel))).collect();
    let bottom = TOP + DISTANCE * panels.len().saturating_sub(1) as f64 + HEIGHT;
    let height = bottom + FOOT;
    let scale = Scale::of(panels);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}. {}\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"10\" fill=\"#15191f\"/>\n\
         <g font-family=\"system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif\" \
         font-size=\"14\" fill=\"#d7dde5\">\n",
        escaped(TITLE),
        escaped(&said.join(" ")),
    );
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"34\" font-size=\"16\">{}</text>", escaped(TITLE));
    for (number, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, TOP + DISTANCE * number as f64, &scale);
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    let _ = writeln!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds since the first \
         datagram arrived</text>",
        bottom + 46.0
    );
    svg + "</g></svg>\n"
}

/// The values at the ends of the chart's axes.
struct Scale {
    seconds: f64,
    lost: f64,
    /// The distance between grid lines.
    line: u64,
}

impl Scale {
    fn of(panels: &[Panel]) -> Self {
        let ends = panels.iter().map(|panel| panel.seconds.max(panel.verdict.0));
        let seconds = ends.fold(1.0, f64::max);
        let most = panels.iter().flat_map(|panel| &panel.lost).copied().max().unwrap_or(0);
        let size = 10_u64.pow(most.max(10).ilog10());
        let line = if most >= size.saturating_mul(4) { size * 2 } else { size };
        Self { seconds, lost: most.div_ceil(line).max(1).saturating_mul(line) as f64, line }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (seconds / self.seconds).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    /// Returns the height of a bar for this many lost datagrams.
    fn height(&self, lost: u64) -> f64 {
        (lost as f64 / self.lost).clamp(0.0, 1.0) * HEIGHT
    }
}

fn draw_panel(svg: &mut String, panel: &Panel, top: f64, scale: &Scale) {
    let bottom = top + HEIGHT;
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
        top - 14.0,
        escaped(&panel.title)
    );
    let (text, colour) = (escaped(&losses(panel)), colour(panel));
    let _ = writeln!(
        svg,
        "<text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{text}</text>",
        top - 14.0
    );
    let mut lost = 0;
    while lost as f64 <= scale.lost {
        let y = bottom - scale.height(lost);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"{GRID}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{QUIET}\">{}</text>",
            LEFT - 10.0,
            y + 5.0,
            grouped(lost)
        );
        lost += scale.line;
    }
    for second in 0..=scale.seconds as u32 {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{QUIET}\">{second}</text>",
            scale.x(second.into()),
            bottom + 20.0
        );
    }
    bars(svg, panel, bottom, scale);
    verdict(svg, panel, top, scale);
}

/// Draws all bars as one path, with steps from left to right.
fn bars(svg: &mut String, panel: &Panel, bottom: f64, scale: &Scale) {
    let mut path = format!("M{LEFT:.1} {bottom:.1}");
    for (number, lost) in panel.lost.iter().enumerate() {
        let end = STEP.as_secs_f64() * (number + 1) as f64;
        let _ = write!(
            path,
            "V{:.1}H{:.1}",
            bottom - scale.height(*lost),
            scale.x(end.min(panel.seconds))
        );
    }
    let _ = writeln!(svg, "<path d=\"{path}V{bottom:.1}Z\" fill=\"{LOSS}\" fill-opacity=\"0.8\"/>");
}

/// Draws a line at the time of the verdict, with the verdict on a background.
fn verdict(svg: &mut String, panel: &Panel, top: f64, scale: &Scale) {
    let (seconds, words) = &panel.verdict;
    let (x, colour) = (scale.x(*seconds), colour(panel));
    let text = format!("the doctor, after {seconds:.1} s: {words}");
    // The approximate width of the text.
    let width = 7.1 * text.chars().count() as f64 + 16.0;
    let left = if x + width + 6.0 > RIGHT { x - width - 6.0 } else { x + 6.0 };
    let _ = writeln!(
        svg,
        "<path d=\"M{x:.1} {top}v{HEIGHT}\" stroke=\"#ffffff\" stroke-width=\"2\"/>\
         <rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"26\" rx=\"5\" fill=\"#15191f\" stroke=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        top + 34.0,
        left + width / 2.0,
        top + 52.0,
        escaped(&text)
    );
}

fn colour(panel: &Panel) -> &'static str {
    if panel.has_loss { LOSS } else { GOOD }
}

fn losses(panel: &Panel) -> String {
    let lost: u64 = panel.lost.iter().sum();
    match panel.first_lost {
        Some(after) => {
            format!("{} lost, the first after {} ms", grouped(lost), after.as_millis())
        }
        None => "none lost".to_owned(),
    }
}

/// Returns a text alternative for the chart.
fn summary(panel: &Panel) -> String {
    let (seconds, words) = &panel.verdict;
    format!("{}: {}; the doctor, after {seconds:.1} s: {words}", panel.title, losses(panel))
}

/// Formats a number with thousands separators.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(lost: Vec<u64>, first: Option<u64>) -> Panel {
        Panel {
            title: "a <loop>".to_owned(),
            seconds: lost.len() as f64 / 10.0,
            lost,
            first_lost: first.map(Duration::from_millis),
            verdict: (9.9, "rate, at the socket (certain)".to_owned()),
            has_loss: first.is_some(),
        }
    }

    #[test]
    fn panels_have_the_same_axes_and_nothing_leaves_the_picture() {
        let svg = draw(&[panel(vec![1500; 100], Some(12)), panel(vec![0; 20], None)]);
        assert_eq!(svg.matches("fill-opacity").count(), 2);
        assert_eq!(svg.matches(">1,000</text>").count(), 2);
        assert!(svg.contains(">150,000 lost, the first after 12 ms</text>"), "{svg}");
        assert!(svg.contains("a &lt;loop>: none lost; the doctor, after 9.9 s"), "{svg}");
        for part in svg.split("<rect x=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((LEFT..RIGHT).contains(&x), "{x}");
        }
    }

    #[test]
    fn nothing_that_is_lost_makes_no_line() {
        let scale = Scale::of(&[panel(vec![0; 20], None)]);
        assert!(scale.lost > 0.0 && scale.seconds >= 9.9);
        assert_eq!(scale.height(0), 0.0);
        assert_eq!(Scale::of(&[panel(vec![4321], Some(1))]).line, 2000);
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([999, 1000, 1_234_567].map(grouped), ["999", "1,000", "1,234,567"]);
    }
}
