//! Starts the client and the server of a cell.

mod clearway;
mod peer;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::catalogue::{Case, Test};
use crate::certificates::Certificates;
use crate::stack::{Controller, Stack};

pub(crate) use clearway::Clearway;

/// The exit status of an endpoint for unsupported tests.
pub(crate) const UNSUPPORTED: i32 = 127;

/// The paths of all stacks' programs.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) clearway: Clearway,
    /// The folder with the peers' programs.
    pub(crate) peers: PathBuf,
}

/// The parts of a cell that an endpoint needs.
pub(crate) struct Setting<'a> {
    pub(crate) test: &'a Test,
    /// The stack that runs as the client.
    pub(crate) client: Stack,
    pub(crate) controller: Controller,
    pub(crate) certificates: &'a Certificates,
    /// The folder with the files that the server serves.
    pub(crate) root: &'a Path,
    /// The folder in which the client stores its downloads.
    pub(crate) downloads: &'a Path,
    /// Names of the files to download.
    pub(crate) files: &'a [String],
    /// The folder for key logs and other output.
    pub(crate) folder: &'a Path,
    pub(crate) listen: SocketAddr,
    pub(crate) connect: SocketAddr,
    pub(crate) preferred: Option<SocketAddr>,
    /// Whether endpoints write qlog files.
    pub(crate) qlog: bool,
}

/// How to run an endpoint.
pub(crate) enum Plan {
    /// Run these commands one after the other; all of them must succeed.
    Run(Vec<Command>),
    /// The stack does not support the test in this setup, for this reason.
    Unsupported(String),
}

impl Programs {
    /// Checks that a stack's program exists.
    pub(crate) fn check(&self, stack: Stack) -> io::Result<()> {
        if stack != Stack::Clearway && !self.peer(stack).exists() {
            let name = self.peer(stack).display().to_string();
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{name} was not built")));
        }
        Ok(())
    }

    fn peer(&self, stack: Stack) -> PathBuf {
        self.peers.join(stack.name())
    }

    pub(crate) fn server(&self, stack: Stack, setting: &Setting<'_>) -> Plan {
        match stack {
            Stack::Clearway => self.clearway.server(setting),
            _ => peer::server(&self.peer(stack), setting),
        }
    }

    pub(crate) fn client(&self, stack: Stack, setting: &Setting<'_>) -> Plan {
        match stack {
            Stack::Clearway => self.clearway.client(setting),
            _ => peer::client(&self.peer(stack), setting),
        }
    }
}

impl Setting<'_> {
    /// Returns the URLs of the files to download. The host name is the one in the server's
    /// certificate; the address is passed separately.
    fn urls(&self) -> impl Iterator<Item = String> + '_ {
        let host = crate::certificates::SERVER_NAME;
        let port = self.connect.port();
        self.files.iter().map(move |file| format!("https://{host}:{port}/{file}"))
    }

    /// Returns the path of an endpoint's key log.
    pub(crate) fn key_log(&self, side: &str) -> PathBuf {
        self.folder.join(format!("{side}.keys"))
    }

    /// Sets the environment variables that both endpoints need.
    fn environment(&self, command: &mut Command, side: &str) {
        command.env("SSLKEYLOGFILE", self.key_log(side)).env_remove("QLOGDIR");
        if self.qlog {
            let folder = self.folder.join(format!("{side}.qlog"));
            let _ = std::fs::create_dir_all(&folder);
            command.env("QLOGDIR", folder);
        }
    }

    fn uses_http3(&self) -> bool {
        self.test.client_case == Case::Http3
    }
}

/// Parses the address from a server's ready message: `listening on https://ADDRESS …` or `listening
/// ADDRESS`.
pub(crate) fn listening(line: &str) -> Option<SocketAddr> {
    let rest = line.strip_prefix("listening ")?;
    let rest = rest.strip_prefix("on ").unwrap_or(rest);
    let rest = rest.strip_prefix("https://").unwrap_or(rest);
    rest.split([' ', '/']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::listening;

    #[test]
    fn the_lines_of_servers_are_understood() {
        let address = Some("0.0.0.0:443".parse().unwrap());
        assert_eq!(listening("listening on https://0.0.0.0:443 (h3)"), address);
        assert_eq!(listening("listening 0.0.0.0:443"), address);
        let address = Some("[::]:443".parse().unwrap());
        assert_eq!(listening("listening on https://[::]:443 (h3)"), address);
        assert_eq!(listening("warning: listening"), None);
    }
}
