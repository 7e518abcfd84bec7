//! What the program prints. Standard output is for results, so that another program can read it;
//! everything else is printed to standard error.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Prints a status line on standard error.
pub fn status(line: &str) {
    // If standard error cannot be written, an error message cannot be printed either.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// The width of standard output in columns, if it is a terminal.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Prints a result on standard output.
///
/// # Errors
///
/// If it cannot be written. A broken pipe is not an error: its reader has seen enough.
pub fn result(line: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match writeln!(output, "{line}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
