//! Clearway's endpoints: `clearway serve` and `clearway get`.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::{Plan, Setting};
use crate::catalogue::{Case, Check};
use crate::stack::Stack;

/// Number of packets after which the client updates its keys in the key update test: early in the
/// download, as the test requires.
const PACKETS_BEFORE_KEY_UPDATE: &str = "50";

/// The `clearway` program and the options that it supports.
#[derive(Debug)]
pub(crate) struct Clearway {
    program: PathBuf,
    get: String,
    serve: String,
}

impl Clearway {
    /// Finds out the program's options from its help text.
    pub(crate) fn find(program: PathBuf) -> io::Result<Self> {
        let help = |command: &str| {
            let output = Command::new(&program).args([command, "--help"]).output();
            let output = output
                .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (get, serve) = (help("get")?, help("serve")?);
        Ok(Self { program, get, serve })
    }

    pub(super) fn server(&self, setting: &Setting<'_>) -> Plan {
        let mut command = Command::new(&self.program);
        command.arg("serve").arg(setting.root).args(["--listen", &setting.listen.to_string()]);
        command.arg("--cert").arg(&setting.certificates.chain);
        command.arg("--key").arg(&setting.certificates.key);
        command.args(["--controller", setting.controller.name()]);
        if !setting.uses_http3() {
            command.arg("--http09");
        }
        let preferred = setting.preferred.map(|address| address.to_string()).unwrap_or_default();
        let wanted: &[&str] = match setting.test.server_case {
            Case::Retry => &["--retry"],
            Case::V2 => &["--quic-versions", "2,1"],
            // Clearway's client can migrate without this option.
            Case::ConnectionMigration
                if has(&self.serve, PREFERRED) || setting.client != Stack::Clearway =>
            {
                &[PREFERRED, &preferred]
            }
            _ => &[],
        };
        setting.environment(&mut command, "server");
        with_options(command, "serve", &self.serve, wanted, |command| vec![command])
    }

    pub(super) fn client(&self, setting: &Setting<'_>) -> Plan {
        let mut command = Command::new(&self.program);
        command.args([
            "get",
            "--quiet",
            "--remote-name",
            "--connect",
            &setting.connect.to_string(),
        ]);
        command.arg("--ca").arg(&setting.certificates.roots).current_dir(setting.downloads);
        command.args(["--controller", setting.controller.name()]);
        if !setting.uses_http3() {
            command.arg("--http09");
        }
        // The client starts in version 1. If it also offers version 2, the server may switch to
        // that version.
        if setting.test.client_case != Case::V2 {
            command.args(["--quic-versions", "1"]);
        }
        setting.environment(&mut command, "client");
        let wanted: &[&str] = match (setting.test.client_case, setting.test.check) {
            (Case::ChaCha20, _) => &["--cipher-suites", "TLS_CHACHA20_POLY1305_SHA256"],
            (Case::KeyUpdate, _) => &["--key-update-after", PACKETS_BEFORE_KEY_UPDATE],
            // If the server has no preferred address, the client migrates to a port of its own
            // choice.
            (_, Check::ConnectionMigration) if !has(&self.serve, PREFERRED) => {
                &["--rebind-after", "500ms"]
            }
            _ => &[],
        };
        with_options(command, "get", &self.get, wanted, |command| match setting.test.client_case {
            Case::Resumption | Case::ZeroRtt => {
                let early: &[&str] = match setting.test.client_case {
                    Case::ZeroRtt => &["--early-data"],
                    _ => &[],
                };
                let mut urls = setting.urls();
                let mut first = copy(&command);
                first.args(["--sessions", SESSIONS]).args(urls.next());
                let mut second = copy(&command);
                second.args(["--sessions", SESSIONS]).args(early).args(urls);
                vec![first, second]
            }
            Case::Multiconnect => {
                let with_url = |url: String| {
                    let mut command = copy(&command);
                    command.arg(url);
                    command
                };
                setting.urls().map(with_url).collect()
            }
            _ => {
                let mut command = command;
                command.args(setting.urls());
                vec![command]
            }
        })
    }
}

/// The file, outside the downloads folder, through which the two clients of a resumption test share
/// sessions.
const SESSIONS: &str = "../sessions";
/// The option of `serve` for the server's preferred address (RFC 9000 §9.6).
const PREFERRED: &str = "--preferred-address";

fn has(help: &str, option: &str) -> bool {
    help.split_ascii_whitespace().any(|word| word.trim_end_matches(',') == option)
}

/// Returns the command with these options added, if the program supports them.
fn with_options(
    mut command: Command,
    name: &str,
    help: &str,
    wanted: &[&str],
    finish: impl FnOnce(Command) -> Vec<Command>,
) -> Plan {
    let missing = wanted.iter().find(|word| word.starts_with("--") && !has(help, word));
    if let Some(missing) = missing {
        return Plan::Unsupported(format!("clearway {name} has no {missing}"));
    }
    command.args(wanted);
    Plan::Run(finish(command))
}

/// Copies a command, because `Command` does not implement `Clone`.
fn copy(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => copy.env(name, value),
            None => copy.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        copy.current_dir(folder);
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn options_are_found_as_whole_words() {
        let help = "  -q, --quiet\n      --early-data, or so\n      --retry-more";
        assert!(has(help, "--quiet") && has(help, "--early-data"));
        assert!(!has(help, "--retry"));
    }
}
