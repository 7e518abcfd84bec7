//! Tips for options and commands of other programs: curl's `--resolve` is `--connect` here.
//!
//! Names with the same meaning here (`--cacert`, `-k`, `--max-time`) are accepted as hidden
//! aliases.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error};

/// An option or command name that users of another program may try, and its replacement here.
struct Tip {
    /// The command with the unknown option; empty for an unknown command.
    command: &'static str,
    names: &'static [&'static str],
    tip: &'static str,
}

const TIPS: [Tip; 29] = [
    tip("", &["curl", "wget", "download"], "to download over HTTP/3: clearway get URL"),
    tip("", &["file-server", "http"], "Caddy's file-server is clearway serve DIR"),
    tip("", &["reverse-proxy", "lb"], "to balance QUIC servers: clearway balance"),
    tip("", &["netem", "tc"], "to impair a path: clearway link"),
    tip("", &["dnsproxy", "resolver", "doq"], "to forward DNS: clearway dns --upstream URL"),
    tip("get", &["--resolve", "--connect-to"], "use --connect HOST:PORT"),
    tip("get", &["--http3", "--http3-only"], "clearway get always uses HTTP/3; omit the option"),
    tip("get", &["--ca-certificate"], "wget's --ca-certificate is --ca FILE here"),
    tip("get", &["--no-check-certificate", "--no-verify"], "use --insecure"),
    tip("get", &["-m", "--connect-timeout"], "--timeout DURATION limits the entire command"),
    tip("get", &["-y", "-Y", "--speed-time", "--speed-limit"], "use --stall-timeout DURATION"),
    tip("get", &["-s", "--silent", "--no-progress-meter"], "use --quiet"),
    tip("get", &["-E"], "curl's -E is --cert FILE here, with --key FILE"),
    tip("get", &["--ciphers", "--tls13-ciphers"], "use --cipher-suites NAME,…"),
    tip("get", &["--curves"], "curl's --curves is --key-exchange-groups NAME,… here"),
    tip("get", &["--tls-earlydata"], "use --early-data, with --sessions FILE"),
    tip("get", &["--ssl-sessions"], "curl's --ssl-sessions is --sessions FILE here"),
    tip("get", &["-Z", "--parallel"], "several URLs are always downloaded in parallel"),
    tip("get", &["--remote-name-all"], "-O applies to all URLs"),
    tip("get", &["--preproxy", "--socks5"], "use --proxy https://HOST:PORT (MASQUE)"),
    tip("dns", &["-u", "--forward"], "use --upstream URL, such as quic://dns.example"),
    tip("dns", &["-l", "--bind", "--address"], "use --listen ADDR, such as 0.0.0.0:853"),
    tip("dns", &["-p", "--port", "--quic-port"], "the port is part of --listen ADDR"),
    tip("serve", &["-r", "--root", "--dir"], "the folder is an argument: clearway serve DIR"),
    tip("serve", &["--domain"], "use --host-name NAME; pass its certificate with --cert and --key"),
    tip("serve", &["-l", "--bind", "--address"], "use --listen ADDR, such as 0.0.0.0:443"),
    tip("serve", &["-p", "--port"], "the port is part of --listen ADDR, such as 0.0.0.0:443"),
    tip("serve", &["--access-log"], "requests are printed unless --quiet is given"),
    tip("serve", &["-v", "--debug", "--verbose"], "use --log debug"),
];

const fn tip(command: &'static str, names: &'static [&'static str], tip: &'static str) -> Tip {
    Tip { command, names, tip }
}

/// Returns the tip for `name`: an option of `command`, or a command if `command` is empty.
fn find(command: &str, name: &str) -> Option<&'static str> {
    let found = TIPS.iter().find(|tip| tip.command == command && tip.names.contains(&name));
    found.map(|tip| tip.tip)
}

/// Rewords clap's errors about numbers: `invalid digit found in string` and `0 is not in 1..=256`.
/// Returns `None` for other errors.
pub(crate) fn expected_number(text: &str) -> Option<String> {
    if let Some((before, after)) = text.split_once(": invalid digit found in string") {
        return Some(format!("{before}: expected a whole number{after}"));
    }
    let (before, after) = text.split_once(" is not in ")?;
    let (before, _number) = before.rsplit_once(": ")?;
    let (range, after) = after.split_once('\n')?;
    let (least, greatest) = range.split_once("..=")?;
    let expected = match greatest.parse::<u64>() {
        Ok(greatest) if greatest < u64::from(u32::MAX) => format!("from {least} to {greatest}"),
        _ => format!("of at least {least}"),
    };
    Some(format!("{before}: expected a whole number {expected}\n{after}"))
}

/// Adds a tip to an error of `command` if it is about another program's name for an option or
/// command. The tip replaces clap's suggestions, which are merely similar names.
pub(crate) fn add(mut error: Error, command: &str) -> Error {
    let found = [(ContextKind::InvalidArg, command), (ContextKind::InvalidSubcommand, "")];
    let found = found.into_iter().find_map(|(kind, command)| match error.get(kind)? {
        ContextValue::String(name) => find(command, name),
        _ => None,
    });
    let Some(tip) = found else { return error };
    if error.remove(ContextKind::SuggestedArg).is_some() {
        // The usage contains the suggestion, too.
        error.remove(ContextKind::Usage);
    }
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
    error.insert(ContextKind::Suggested, tips);
    error
}

#[cfg(test)]
#[path = "tips_tests.rs"]
mod tips_tests;
