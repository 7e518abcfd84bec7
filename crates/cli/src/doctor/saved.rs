//! Reads and writes snapshot files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use clearway_doctor::{Snapshot, decode, encode};

use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// Maximum size of a file to read, sufficient for ten minutes on a host with a thousand sockets.
const MAX_FILE: u64 = 1 << 30;

/// A file in which snapshots will be saved atomically.
pub(super) struct Saving<'a> {
    path: &'a Path,
    file: WholeFile,
}

impl<'a> Saving<'a> {
    /// Creates the file before snapshots are taken, so that an error is reported early.
    pub(super) fn create(path: &'a Path) -> Result<Self, Failure> {
        let file = WholeFile::create(path).map_err(|error| failed(path, &error))?;
        Ok(Self { path, file })
    }

    /// Writes the snapshots to the file.
    pub(super) fn finish(mut self, snapshots: &[Snapshot]) -> Result<(), Failure> {
        for snapshot in snapshots {
            let line = encode(snapshot).map_err(|error| failed(self.path, &error))?;
            self.file.write_all(line.as_bytes()).map_err(|error| failed(self.path, &error))?;
        }
        self.file.finish().map_err(|error| failed(self.path, &error))
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
        .advise("choose another file with --save")
}

/// Reads the snapshots in a file.
pub(super) fn read(path: &Path) -> Result<Vec<Snapshot>, Failure> {
    let failed = |error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::new(format!(
            "cannot read {}: it is larger than 1 GiB",
            path.display()
        )));
    }
    decode(&bytes).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()))
            .advise("use a file that clearway doctor --save has written")
    })
}
