//! How client and server of a cell are started.

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

/// The exit status of an endpoint that does not support a test.
pub(crate) const UNSUPPORTED: i32 = 127;

/// The programs of all stacks.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) clearway: Clearway,
    /// The folder with the peers' programs.
    pub(crate) peers: PathBuf,
}

/// What an endpoint has to know about its cell.
pub(crate) struct Setting<'a> {
    pub(crate) test: &'a Test,
    /// The client's stack.
    pub(crate) client: Stack,
    pub(crate) controller: Controller,
    pub(crate) certificates: &'a Certificates,
    /// The files that the server serves.
    pub(crate) root: &'a Path,
    /// Where the client stores what it downloads.
    pub(crate) downloads: &'a Path,
    /// The names of the files.
    pub(crate) files: &'a [String],
    /// Where the key logs and other records go.
    pub(crate) folder: &'a Path,
    pub(crate) listen: SocketAddr,
    pub(crate) connect: SocketAddr,
    pub(crate) preferred: Option<SocketAddr>,
    /// Whether endpoints write qlog files.
    pub(crate) qlog: bool,
}

/// What to run for an endpoint.
pub(crate) enum Plan {
    /// These commands, one after the other; all have to succeed.
    Run(Vec<Command>),
    /// The stack, as it is run here, does not support the test, for this reason.
    Unsupported(String),
}

impl Programs {
    /// Whether the program of a stack exists.
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
    /// The URLs of the files. The server's name is that of its certificate; the address is given separately.
    fn urls(&self) -> impl Iterator<Item = String> + '_ {
        let host = crate::certificates::SERVER_NAME;
        let port = self.connect.port();
        self.files.iter().map(move |file| format!("https://{host}:{port}/{file}"))
    }

    /// The key log of an endpoint.
    pub(crate) fn key_log(&self, side: &str) -> PathBuf {
        self.folder.join(format!("{side}.keys"))
    }

    /// The variables that both endpoints get.
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

/// The address in the line with which a server says that it is ready: `listening on https://ADDRESS …` or
/// `listening ADDRESS`.
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
