use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a file that only the current user may read, because a trace shows who communicated with
/// whom, and when.
///
/// # Errors
/// Returns an error if the path already exists, even as a symbolic link, or the file cannot be
/// created.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
