//! Help texts: options under headings, and paragraphs of `--help` wrapped at the terminal's width.
//! Examples are not wrapped, so that they can be copied.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// Width of paragraphs if standard output is not a terminal, and maximum width otherwise.
const WIDTH: usize = 100;
/// Minimum width of a paragraph.
const LEAST_WIDTH: usize = 40;
/// Indentation of an option's paragraphs.
const INDENTATION: usize = 10;

/// The headings of commands with many options, each with the names of its options. All other
/// options are under "Options".
const HEADINGS: [(&str, &str, &[&str]); 21] = [
    (
        "get",
        "Certificates and sessions",
        &[
            "ca",
            "insecure",
            "cert",
            "key",
            "ech",
            "cipher-suites",
            "key-exchange-groups",
            "resume",
            "sessions",
            "early-data",
        ],
    ),
    ("get", "Proxy", &["proxy", "proxy-ca", "proxy-insecure", "proxy-user"]),
    (
        "proxy",
        "Certificates and clients",
        &["cert", "key", "save-cert", "client-ca", "client-certificate", "users", "open"],
    ),
    ("proxy", "Targets", &["allow", "deny", "only-allowed"]),
    (
        "proxy",
        "Limits",
        &["tunnels", "tunnels-per-client", "bandwidth", "bandwidth-per-client", "tunnel-idle"],
    ),
    ("proxy", "IP tunnels", &["ip-pool", "tun", "tun-mtu"]),
    ("tunnel", "Proxy", &["proxy", "proxy-ca", "proxy-insecure", "proxy-user"]),
    ("proxy", "Restart and shutdown", &["hot-restart", "drain", "shutdown-timeout"]),
    ("get", "Requests", &["http09", "priority", "tunnel", "datagrams"]),
    ("get", "Connection", &["keep-alive", "rebind-after", "quic-versions", "quic-version"]),
    (
        "serve",
        "Certificates and clients",
        &[
            "cert",
            "key",
            "save-cert",
            "client-ca",
            "client-certificate",
            "host-name",
            "key-exchange-groups",
            "no-early-data",
            "ticket-keys",
        ],
    ),
    ("serve", "Restart and shutdown", &["hot-restart", "drain", "shutdown-timeout"]),
    ("serve", "Load balancers", &["balancer", "quic-lb"]),
    (
        "serve",
        "Limits",
        &[
            "retry",
            "retry-above",
            "open-files",
            "content-memory",
            "connection-memory",
            "send-timeout",
            "request-timeout",
        ],
    ),
    ("serve", "Connection", &["preferred-address", "quic-versions", "busy-poll"]),
    ("dns", "Listening", &["listen", "listen-https", "listen-udp", "listen-tcp"]),
    (
        "dns",
        "Certificates and clients",
        &["cert", "key", "save-cert", "client-ca", "client-certificate", "no-early-data"],
    ),
    (
        "dns",
        "Upstream servers and cache",
        &["upstream", "ca", "upstream-timeout", "query-timeout", "cache-size", "cache-memory"],
    ),
    ("dns", "Observation", &["metrics", "metrics-name"]),
    ("proxy", "Observation", &["metrics", "metrics-name"]),
    ("serve", "Observation", &["live", "live-name", "live-memory", "metrics", "metrics-name"]),
];

/// The headings of options that several commands share.
const COMMON: [(&str, &[&str]); 2] = [
    (
        "Connection",
        &[
            "qpack-table",
            "qpack-blocked-streams",
            "controller",
            "idle-timeout",
            "key-update-after",
            "no-ack-frequency",
        ],
    ),
    ("Observation", &["qlog", "qlog-max-file", "qlog-max-total", "log"]),
];

/// Returns the program's command line with headings, and with paragraphs of at most `width` columns.
pub(crate) fn arranged(program: Command, width: Option<usize>) -> Command {
    let width = width.unwrap_or(WIDTH).min(WIDTH);
    wrapped(grouped(program), width)
}

/// Returns the program's command line with headings.
pub(crate) fn grouped(program: Command) -> Command {
    program.mut_subcommands(with_headings)
}

fn with_headings(command: Command) -> Command {
    let name = command.get_name().to_owned();
    if !HEADINGS.iter().any(|(of, ..)| *of == name) {
        return command;
    }
    command.mut_args(|argument| match heading(&name, argument.get_long()) {
        Some(heading) => argument.help_heading(heading),
        None => argument,
    })
}

fn heading(command: &str, option: Option<&str>) -> Option<&'static str> {
    let option = option?;
    let own = HEADINGS.iter().filter(|(of, ..)| *of == command);
    let mut all = own.map(|(_, heading, names)| (*heading, *names)).chain(COMMON);
    all.find(|(_, names)| names.contains(&option)).map(|(heading, _)| heading)
}

fn wrapped(command: Command, width: usize) -> Command {
    let about = command.get_long_about().map(|text| wrap(&text.to_string(), width));
    let command = match about {
        Some(about) => command.long_about(about),
        None => command,
    };
    let inside = width.saturating_sub(INDENTATION);
    let wrap_argument = |argument: Arg| match argument.get_long_help() {
        Some(text) => {
            let text = wrap(&text.to_string(), inside);
            argument.long_help(StyledStr::from(text))
        }
        None => argument,
    };
    command.mut_args(wrap_argument).mut_subcommands(|command| wrapped(command, width))
}

/// Breaks the lines of `text` at spaces. Indented lines stay as they are.
fn wrap(text: &str, width: usize) -> String {
    let width = width.max(LEAST_WIDTH);
    let lines = text.lines().map(|line| match line.starts_with(' ') {
        true => line.to_owned(),
        false => wrap_line(line, width),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    let mut wrapped = String::with_capacity(line.len());
    let mut column = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            wrapped.push('\n');
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod help_tests;
