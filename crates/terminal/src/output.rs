//! What the program prints. Standard output is for results, so that another program can read it;
//! everything else is printed to standard error.
//!
//! A reader that pauses (a full pipe, a stopped terminal) must not stop a server. So a thread for each stream does the
//! writing. Only [`result`] waits for it without a limit; all others print without waiting, or wait for a second at most
//! where a program starts or ends. They leave out lines if too many wait, which [`dropped`] counts.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crate::failure::Failure;
use crate::lines::Lines;

/// How long a result waits for status lines that were printed before it, and the program at its end for everything.
const PATIENCE: Duration = Duration::from_secs(1);

/// `None` if the system cannot start a thread.
static STANDARD_OUTPUT: OnceLock<Option<Lines>> = OnceLock::new();
static STANDARD_ERROR: OnceLock<Option<Lines>> = OnceLock::new();

fn standard_output() -> Option<&'static Lines> {
    let start = || Lines::start("clearway-stdout", "standard output", io::stdout()).ok();
    STANDARD_OUTPUT.get_or_init(start).as_ref()
}

fn standard_error() -> Option<&'static Lines> {
    let start = || Lines::start("clearway-stderr", "standard error", io::stderr()).ok();
    STANDARD_ERROR.get_or_init(start).as_ref()
}

/// Prints a status line on standard error, without waiting.
pub fn status(line: &str) {
    log(format!("{line}\n").into_bytes());
}

/// Prints bytes that end with a line feed on standard error, without waiting.
pub fn log(line: Vec<u8>) {
    match standard_error() {
        Some(lines) => lines.add(line),
        // If standard error cannot be written, an error message cannot be printed either.
        None => drop(io::Write::write_all(&mut io::stderr().lock(), &line)),
    }
}

/// Prints the frame of a progress bar on standard error, without waiting. It is left out if too much waits: the next one
/// replaces it.
pub(crate) fn frame(frame: Vec<u8>) {
    if let Some(lines) = standard_error() {
        let _ = lines.try_add(frame);
    }
}

/// Prints a line of a program that keeps running, such as a server's access log, on standard output, without waiting.
pub fn event(line: &str) {
    let line = format!("{line}\n").into_bytes();
    match standard_output() {
        Some(lines) => lines.add(line),
        None => drop(io::Write::write_all(&mut io::stdout().lock(), &line)),
    }
}

/// The width of standard output in columns, if it is a terminal.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Prints a result on standard output, and waits until it is written. Do not call it on a thread that serves others.
///
/// # Errors
///
/// If it cannot be written. A broken pipe is not an error: its reader has seen enough.
pub fn result(line: &str) -> Result<(), Failure> {
    settle();
    let line = format!("{line}\n").into_bytes();
    let written = match standard_output() {
        Some(lines) => lines.write(line),
        None => io::Write::write_all(&mut io::stdout().lock(), &line),
    };
    unless_broken(written)
}

/// Prints the result of a program that was ended, such as a server's counters, on standard output, and waits for at most a
/// second until it is written: a reader that pauses must not keep the program.
///
/// # Errors
///
/// As [`result`], if that is known in time.
pub fn last_result(line: &str) -> Result<(), Failure> {
    settle();
    let line = format!("{line}\n").into_bytes();
    let written = match standard_output() {
        Some(lines) => lines.write_within(line, PATIENCE),
        None => Some(io::Write::write_all(&mut io::stdout().lock(), &line)),
    };
    unless_broken(written.unwrap_or(Ok(())))
}

fn unless_broken(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Waits until the status lines that were printed so far are written, for at most a second, so that the result after them
/// is printed after them on a terminal, too.
pub fn settle() {
    if let Some(Some(lines)) = STANDARD_ERROR.get() {
        lines.settle(PATIENCE);
    }
}

/// Waits until everything is written, for at most a second for each stream. The program ends after this.
pub fn finish() {
    for lines in [&STANDARD_OUTPUT, &STANDARD_ERROR] {
        if let Some(Some(lines)) = lines.get() {
            lines.settle(PATIENCE);
        }
    }
}

/// How many lines were left out on standard output and on standard error, because their reader was too slow or they could
/// not be written.
pub fn dropped() -> [u64; 2] {
    [&STANDARD_OUTPUT, &STANDARD_ERROR]
        .map(|lines| lines.get().and_then(Option::as_ref).map_or(0, Lines::dropped))
}
