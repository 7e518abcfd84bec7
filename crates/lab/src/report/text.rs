//! Formats values for people.

use core::time::Duration;

use clearway_units::Rate;

/// Formats a time, such as `4.213 s`.
pub fn seconds_text(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Formats a time, or `never` if there is none.
pub(super) fn time_or_never(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), seconds_text)
}

/// Formats a rate, such as `9.41 Mbit/s`.
pub(super) fn rate_text(rate: Rate) -> String {
    let bits = rate.bits_per_second() as f64;
    match bits {
        bits if bits >= 1e9 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.2} Mbit/s", bits / 1e6),
        bits => format!("{:.1} kbit/s", bits / 1e3),
    }
}

/// Formats a share, such as `93.4 %`.
pub(super) fn percent_text(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a list of seeds, such as `seeds 3, 17 and others`; `count` is the total number of seeds.
pub(super) fn seeds_text(seeds: &[u64], count: usize) -> String {
    let list: Vec<_> = seeds.iter().map(u64::to_string).collect();
    let word = if count == 1 { "seed" } else { "seeds" };
    let more = if count > seeds.len() { " and others" } else { "" };
    format!("{word} {}{more}", list.join(", "))
}

/// Wraps `text` into indented lines of at most `width` characters, unless a single word is longer.
pub(super) fn wrapped(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = indent.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(core::mem::replace(&mut line, format!("{indent}  ")));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    if !is_empty {
        lines.push(line);
    }
    lines
}
