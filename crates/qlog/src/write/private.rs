use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a file that only this user may read: a trace says who talked to whom, and when.
///
/// # Errors
/// If anything has that name already, a symbolic link included, or the file cannot be made.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
