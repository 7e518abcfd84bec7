//! What the program prints. Standard output is for results, so that it can be read by another program;
//! everything else goes to standard error.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Prints a line about what is going on.
pub(crate) fn status(line: &str) {
    // If nobody can hear it, nobody can hear the complaint either.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// How many columns standard output has, if it is a terminal.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Prints a result on standard output.
///
/// # Errors
///
/// If it cannot be written. That its reader has seen enough is no error.
pub(crate) fn result(line: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match writeln!(output, "{line}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
