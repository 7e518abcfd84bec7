//! Faults that a kernel cannot produce on demand: wall clock jumps, and errors in the system calls
//! that send and receive datagrams. They are caused by a small C library that is preloaded into the
//! server. The kernel and the server are unchanged.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::tool;

const SOURCE: &str = include_str!("faults.c");
/// Number of fields in the file that is shared with the library.
const FIELDS: usize = 4;

/// A fault on the server's host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The wall clock is this many seconds ahead.
    Clock(i64),
    /// Every attempt to send datagrams fails.
    Send(Errno),
    /// Every attempt to receive datagrams fails.
    Receive(Errno),
    /// Every attempt to send with segmentation offload (GSO) fails.
    Segmentation(Errno),
}

impl Fault {
    /// Returns the offset and value of the fault's field; see `struct faults` in `faults.c`.
    fn field(self) -> (u64, i64) {
        match self {
            Self::Clock(seconds) => (0, seconds),
            Self::Send(error) => (1, error.raw_os_error().into()),
            Self::Receive(error) => (2, error.raw_os_error().into()),
            Self::Segmentation(error) => (3, error.raw_os_error().into()),
        }
    }
}

/// The preloaded library, and the file that it shares with this program.
pub(super) struct Faults {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl Faults {
    /// Builds the fault library in `folder`.
    ///
    /// # Errors
    /// Returns an error if there is no C compiler.
    pub(super) fn build(folder: &Path) -> Result<Self, String> {
        let [source, library, path] =
            ["faults.c", "faults.so", "faults"].map(|name| folder.join(name));
        std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
        let (from, to) = (source.display().to_string(), library.display().to_string());
        tool("cc", &["-shared", "-fPIC", "-O2", "-o", &to, &from])?;
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = opened.map_err(|error| error.to_string())?;
        file.write_all_at(&[0; 8 * FIELDS], 0).map_err(|error| error.to_string())?;
        Ok(Self { library, path, file })
    }

    /// Returns the environment variables that load the library into a program.
    pub(super) fn environment(&self) -> [String; 2] {
        [
            format!("LD_PRELOAD={}", self.library.display()),
            format!("CLEARWAY_STORM_FAULTS={}", self.path.display()),
        ]
    }

    /// Starts a fault.
    pub(super) fn begin(&self, fault: Fault) -> Result<(), String> {
        let (place, value) = fault.field();
        self.write(place, value)
    }

    /// Ends a fault.
    pub(super) fn end(&self, fault: Fault) -> Result<(), String> {
        self.write(fault.field().0, 0)
    }

    fn write(&self, place: u64, value: i64) -> Result<(), String> {
        let written = self.file.write_all_at(&value.to_ne_bytes(), 8 * place);
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}
