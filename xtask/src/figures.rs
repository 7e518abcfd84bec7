//! `cargo xtask figures`: draws the documents' pictures from the program's output and logs, and
//! checks that the pictures and the numbers in documents match the code.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{self, cargo, output, root, target};

const CONTROLLERS: [(&str, &str); 3] = [("reno", "Reno"), ("cubic", "CUBIC"), ("bbr", "BBR")];

/// Pictures that cannot be drawn from the program alone, and how they are made.
const OTHERS: [(&str, &str); 3] = [
    ("balance-loss.svg", "cargo xtask bench balance --picture docs/pictures/balance-loss.svg"),
    ("udp-loss.svg", "cargo xtask udp-loss --picture docs/pictures/udp-loss.svg (root)"),
    ("viewer.png", "a screenshot of clearway view with a trace of quiche before its fix"),
];

/// Draws `docs/pictures/demo.svg` and `docs/pictures/lab.svg` with the program at `program`. Fails
/// if a picture did not match the program's output, or if a number in a document does not match the
/// code.
pub(crate) fn run(program: &Path) -> Result<(), String> {
    let demo = demo(program)?;
    let runs: Result<Vec<_>, _> = CONTROLLERS.iter().map(|it| Run::of(program, *it)).collect();
    let lab = lab(&runs?);
    let mut changed = Vec::new();
    for (name, picture, agree) in
        [("demo.svg", demo, same_but_for_numbers as fn(&str, &str) -> bool), ("lab.svg", lab, same)]
    {
        let path = folder().join(name);
        let fault = |error| format!("{}: {error}", path.display());
        let committed = fs::read_to_string(&path).map_err(fault)?;
        if !agree(&committed, &picture) {
            changed.push(name);
        }
        fs::write(&path, picture).map_err(fault)?;
    }
    for (name, how) in OTHERS {
        eprintln!("xtask: not redrawn: docs/pictures/{name}, made by {how}");
    }
    let mut tests = cargo(&["test", "--quiet", "--package", "xtask", "--test", "figures"]);
    command::run("comparing the figures in documents", &mut tests)?;
    match changed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "these pictures did not match the program and were redrawn: {}; review them \
             and commit them",
            changed.join(", ")
        )),
    }
}

fn folder() -> PathBuf {
    root().join("docs/pictures")
}

/// Returns whether two drawings of runs in virtual time match.
fn same(one: &str, other: &str) -> bool {
    one == other
}

/// Returns whether two drawings of measured runs match: they must have the same words, in texts of
/// any length.
fn same_but_for_numbers(one: &str, other: &str) -> bool {
    words(one) == words(other)
}

/// Returns the words in a drawing's texts, without numbers.
fn words(picture: &str) -> Vec<String> {
    let texts = picture.split("<text").skip(1).filter_map(|it| it.split_once('>'));
    let texts =
        texts.filter_map(|(_, it)| Some(it.split("</text>").next()?.replace("&#160;", " ")));
    let words: Vec<String> = texts
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    words.into_iter().filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect()
}

/// Draws the terminal output of `clearway demo`.
fn demo(program: &Path) -> Result<String, String> {
    const COLUMN: f64 = 8.43;
    const COMMAND: &str = "$ cargo run --release -- demo";
    let mut command = Command::new(program);
    let ran = command.args(["demo"]).output().map_err(|error| format!("demo: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (table, status) = (text(&ran.stdout), text(&ran.stderr));
    let home = std::env::var("HOME").unwrap_or_default();
    let status = status.replace(&home, "~");
    let status: Vec<_> = status.lines().collect();
    let (_, places) = status.split_at(status.len().saturating_sub(2));
    let mut lines = vec![("#8fd3ff", COMMAND)];
    lines.extend(table.lines().enumerate().map(|(row, line)| {
        let color = if row == 0 { "#9aa5b1" } else { "#d7dde5" };
        (color, line)
    }));
    lines.extend(places.iter().map(|line| ("#9aa5b1", *line)));
    let columns = lines.iter().map(|(_, line)| line.chars().count()).max().unwrap_or(0) as f64;
    let (width, height) = ((columns * COLUMN).ceil() + 48.0, lines.len() * 20 + 64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"The table that clearway demo prints\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#15191f\"/>\n\
         <circle cx=\"22\" cy=\"20\" r=\"6\" fill=\"#ec6a5e\"/>\
         <circle cx=\"42\" cy=\"20\" r=\"6\" fill=\"#f4bf4f\"/>\
         <circle cx=\"62\" cy=\"20\" r=\"6\" fill=\"#61c554\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace\" \
         font-size=\"14\" fill=\"#d7dde5\" xml:space=\"preserve\">\n"
    );
    for (row, (color, line)) in lines.iter().enumerate() {
        let (y, length) = (56 + row * 20, line.chars().count() as f64 * COLUMN);
        let line = line.replace(' ', "&#160;");
        _ = writeln!(
            svg,
            "<text x=\"24\" y=\"{y}\" fill=\"{color}\" textLength=\"{length:.1}\" \
             lengthAdjust=\"spacing\">{line}</text>"
        );
    }
    svg.push_str("</g></svg>\n");
    Ok(svg)
}

/// A run of the scenario `collapse` in the lab.
struct Run {
    class: &'static str,
    title: &'static str,
    /// The completion time of the download in seconds.
    end: f64,
    /// Time since the start in seconds, and the congestion window in bytes.
    windows: Vec<(f64, f64)>,
}

impl Run {
    fn of(program: &Path, (class, title): (&'static str, &'static str)) -> Result<Self, String> {
        let log = target().join(format!("picture-{class}.sqlog"));
        let mut command = Command::new(program);
        command.args(["lab", "replay", "collapse", "--seed", "1", "--controller", class, "--qlog"]);
        let printed = output("a run in the lab", command.arg(&log).current_dir(root()))?;
        let end = printed.lines().find_map(|line| {
            let seconds = line.strip_prefix("finished after ")?.strip_suffix(" s")?;
            seconds.parse().ok()
        });
        let end = end.ok_or_else(|| format!("{class} did not finish: {printed}"))?;
        let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
        let windows = text.split('\u{1e}').filter_map(|record| {
            let event: Value = serde_json::from_str(record).ok()?;
            let window = event["data"]["congestion_window"].as_f64()?;
            Some((event["time"].as_f64()? / 1000.0, window))
        });
        Ok(Self { class, title, end, windows: windows.collect() })
    }

    /// Returns the SVG path of the congestion window: the last point of each tenth of a pixel.
    fn path(&self) -> String {
        let mut points: Vec<(String, String)> = Vec::new();
        for (time, window) in self.windows.iter().filter(|(time, _)| *time <= self.end) {
            let point = (format!("{:.1}", x(*time)), format!("{:.1}", y(*window)));
            match points.last_mut() {
                Some(last) if last.0 == point.0 => *last = point,
                Some(last) if last.1 == point.1 => {}
                _ => points.push(point),
            }
        }
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            path += &if at == 0 { format!("M{x} {y}") } else { format!("H{x}V{y}") };
        }
        path + &format!("H{:.1}", x(self.end))
    }

    fn last_window(&self) -> f64 {
        let during = self.windows.iter().rev().find(|(time, _)| *time <= self.end);
        during.map_or(1.0, |(_, window)| *window)
    }
}

/// Returns the x coordinate of a time in seconds.
fn x(time: f64) -> f64 {
    74.0 + time * 134.0
}

/// Returns the y coordinate of a congestion window in bytes, on a logarithmic scale.
fn y(window: f64) -> f64 {
    261.8 - 94.6 * (window.log10() - 4.0)
}

const STYLE: &str = ".card{fill:#ffffff;stroke:#d0d7de}.ink{fill:#1f2328}.quiet{fill:#59636e}\
.grid{stroke:#d8dee4;stroke-width:1}.loss{fill:#b42318;opacity:.08}.losstext{fill:#b42318}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.reno{stroke:#0b6e4f}.cubic{stroke:#1f5fbf}.bbr{stroke:#b35900}
.treno{fill:#0b6e4f}.tcubic{fill:#1f5fbf}.tbbr{fill:#b35900}
@media (prefers-color-scheme: dark){.card{fill:#15191f;stroke:#30363d}.ink{fill:#e6edf3}.quiet{fill:#9aa5b1}\
.grid{stroke:#2b323a}.loss{fill:#ff8a80;opacity:.12}.losstext{fill:#ff9d94}
.reno{stroke:#4cc38a}.cubic{stroke:#6cb0ff}.bbr{stroke:#f5a742}.treno{fill:#4cc38a}.tcubic{fill:#6cb0ff}.tbbr{fill:#f5a742}}";

/// Draws the congestion windows over time.
fn lab(runs: &[Run]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"380\" viewBox=\"0 0 760 \
         380\" role=\"img\" aria-labelledby=\"title\" font-family=\"system-ui, -apple-system, \
         Segoe UI, DejaVu Sans, sans-serif\" font-size=\"13\">\n<title id=\"title\">Congestion \
         window over time in the scenario collapse: Reno, CUBIC and BBR come down to a few \
         datagrams during the loss and grow again as soon as it \
         ends</title>\n<style>\n{STYLE}\n</style>\n<rect class=\"card\" x=\".5\" y=\".5\" \
         width=\"759\" height=\"379\" rx=\"8\"/>\n<rect class=\"loss\" x=\"76.7\" y=\"44\" \
         width=\"268.0\" height=\"284\"/>\n<text class=\"losstext\" x=\"210.7\" y=\"60\" \
         text-anchor=\"middle\">30 % loss in both directions</text>\n"
    );
    for (window, label) in [(2.7e3, "2.7 kB"), (1e4, "10 kB"), (1e5, "100 kB"), (1e6, "1 MB")] {
        let y = y(window);
        _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M74 {y:.1}H610\"/>\
             <text class=\"quiet\" x=\"66\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            y + 4.5
        );
    }
    for second in 0..=4 {
        let x = x(f64::from(second));
        _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} 44V328\"/>\
             <text class=\"quiet\" x=\"{x:.1}\" y=\"346\" text-anchor=\"middle\">{second} s</text>"
        );
    }
    svg.push_str(
        "<text class=\"ink\" x=\"16\" y=\"26\" font-weight=\"600\">Congestion window (logarithmic), 10 MB over a path of \
         10 ms, seed 1</text>\n<text class=\"quiet\" x=\"342\" y=\"368\" text-anchor=\"middle\">virtual time since the client \
         began</text>\n",
    );
    for run in runs {
        _ = writeln!(svg, "<path class=\"line {}\" d=\"{}\"/>", run.class, run.path());
    }
    let mut by_height: Vec<_> = runs.iter().collect();
    by_height.sort_by(|a, b| b.last_window().total_cmp(&a.last_window()));
    let mut free = 59.0;
    for run in by_height {
        let (class, height) = (run.class, y(run.last_window()));
        let top = height.max(free);
        free = top + 42.0;
        _ = writeln!(
            svg,
            "<text class=\"t{class}\" x=\"620\" y=\"{top:.0}\">{}</text>\n\
             <text class=\"t{class}\" x=\"620\" y=\"{:.0}\">done after {:.2} s</text>\n\
             <circle class=\"t{class}\" cx=\"{:.1}\" cy=\"{height:.1}\" r=\"3.5\"/>",
            run.title,
            top + 15.0,
            run.end,
            x(run.end)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_is_known() {
        let files = fs::read_dir(folder()).unwrap();
        let mut files: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let mut known = vec!["demo.svg", "lab.svg"];
        known.extend(OTHERS.map(|(name, _)| name));
        known.sort_unstable();
        assert_eq!(files, known);
    }

    #[test]
    fn drawings_of_measured_runs_differ_only_in_numbers() {
        let committed = fs::read_to_string(folder().join("demo.svg")).unwrap();
        let measured = committed.replace('3', "4");
        assert_ne!(committed, measured);
        assert!(same_but_for_numbers(&committed, &measured));
        assert!(!same_but_for_numbers(&committed, &committed.replace("reno", "vegas")));
        assert!(words(&committed).len() > 20, "{:?}", words(&committed));
    }
}
