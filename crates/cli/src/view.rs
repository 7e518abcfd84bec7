//! `clearway view`: shows connection traces.

mod arguments;
mod catalogue;
mod document;
mod findings;
mod live;
mod page;
mod progress;
mod trace;

pub(crate) use arguments::ViewCommand;

use std::path::Path;

use clearway_qlog::read::{OpenError, QlogReader};

use crate::failure::Failure;

/// The exit status for files that cannot be read.
const UNREADABLE: u8 = 2;

/// Runs the command.
///
/// # Errors
///
/// Returns an error if a file cannot be read, there are findings (with `--findings`), or the page
/// cannot be served or written.
pub(crate) async fn run(command: ViewCommand) -> Result<(), Failure> {
    if command.catalogue {
        return catalogue::print(command.json);
    }
    if command.findings || command.json {
        return findings::print(&command);
    }
    if let Some(origin) = command.live.clone() {
        return page::serve(&command, live::news(origin)).await;
    }
    let files = command.files.iter().map(|path| Ok((path.clone(), open(path)?)));
    let files = files.collect::<Result<Vec<_>, Failure>>()?;
    match &command.html {
        Some(out) => document::write(out, &trace::read_all(files)),
        None => page::serve(&command, page::traces(files)).await,
    }
}

/// Opens a qlog file.
fn open(path: &Path) -> Result<QlogReader, Failure> {
    QlogReader::open(path).map_err(|error| {
        let why = match &error {
            OpenError::Io { path: Some(_), .. } => error.to_string(),
            _ => format!("cannot read {}: {error}", path.display()),
        };
        let advice = match &error {
            OpenError::Io { .. } => "check the path and the permissions of the file",
            _ => "only qlog files can be read, plain or compressed (.gz, .zst)",
        };
        Failure::new(why).advise(advice).with_exit_status(UNREADABLE)
    })
}
