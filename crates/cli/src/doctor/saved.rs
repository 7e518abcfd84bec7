//! Files of snapshots.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use clearway_doctor::{Snapshot, decode, encode};

use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// The largest file that is read: ten minutes of a host with a thousand sockets.
const MAX_FILE: u64 = 1 << 30;

/// Writes the snapshots into a file, all or none.
pub(super) fn write(path: &Path, snapshots: &[Snapshot]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write {}: {error}", path.display()))
    };
    let mut file = WholeFile::create(path).map_err(|error| failed(&error))?;
    for snapshot in snapshots {
        let line = encode(snapshot).map_err(|error| failed(&error))?;
        file.write_all(line.as_bytes()).map_err(|error| failed(&error))?;
    }
    file.finish().map_err(|error| failed(&error))
}

/// The snapshots in a file.
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
            .advise("clearway doctor --save writes such files")
    })
}
