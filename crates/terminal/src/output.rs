//! Output of the program. Standard output is for results, so that another program can read it;
//! everything else goes to standard error.
//!
//! A reader that pauses (a full pipe, a stopped terminal) must not block a server. Therefore, each
//! stream has a writer thread. Only [`result`] waits for this thread without a limit. The other
//! functions print without waiting, or wait for at most a second when the program starts or ends.
//! They drop lines if too many are queued; [`dropped`] returns how many were dropped.
//!
//! All output may contain foreign text, so it is escaped ([`clearway_units::foreign`]): no control
//! characters, and no characters that reorder or hide text, reach a terminal or a log. [`status`],
//! [`event`] and [`log`] print one line of at most [`MAX_LINE`] bytes: a line feed in foreign text
//! does not begin a new line. The meaning of JSON is preserved.

use std::io;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use clearway_units::foreign::{Foreign, escaped_lines};

use crate::failure::Failure;
use crate::lines::Lines;
use crate::system;

/// The maximum length of a line of [`status`], [`event`] and [`log`] in bytes; longer lines are
/// truncated, and state by how much.
pub const MAX_LINE: usize = 8192;

/// Maximum time that a result waits for earlier status lines, and that the program waits for all
/// output before it exits.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The writer of standard output; `None` if the system cannot start a thread.
static STANDARD_OUTPUT: OnceLock<Option<Lines>> = OnceLock::new();
static STANDARD_ERROR: OnceLock<Option<Lines>> = OnceLock::new();

fn standard_output() -> Option<&'static Lines> {
    let report = |error: &io::Error| {
        // A reader that has closed the pipe needs no more output.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return;
        }
        status(&format!(
            "clearway: cannot write to standard output: {error}; its lines are dropped and counted"
        ));
    };
    let start = || Lines::start("clearway-stdout", "standard output", io::stdout(), report).ok();
    STANDARD_OUTPUT.get_or_init(start).as_ref()
}

fn standard_error() -> Option<&'static Lines> {
    // An error in this stream cannot be reported anywhere.
    let start = || Lines::start("clearway-stderr", "standard error", io::stderr(), |_| {}).ok();
    STANDARD_ERROR.get_or_init(start).as_ref()
}

/// Prints a status line on standard error, without waiting.
pub fn status(line: &str) {
    to_standard_error(one_line(line));
}

/// Prints several status lines on standard error, without waiting. All line feeds in `lines` must
/// be the program's own.
pub fn status_lines(lines: &str) {
    to_standard_error(format!("{}\n", escaped_lines(lines)).into_bytes());
}

/// Prints a log line on standard error, without waiting; it may end with a line feed.
pub fn log(line: &str) {
    to_standard_error(one_line(line.strip_suffix('\n').unwrap_or(line)));
}

fn one_line(line: &str) -> Vec<u8> {
    format!("{}\n", Foreign(line).within(MAX_LINE)).into_bytes()
}

fn to_standard_error(line: Vec<u8>) {
    match standard_error() {
        Some(lines) => lines.add(line),
        // If standard error cannot be written, an error message cannot be printed either.
        None => drop(io::Write::write_all(&mut io::stderr().lock(), &line)),
    }
}

/// Prints the frame of a progress bar on standard error, without waiting. It is dropped if too much
/// output is queued, since the next frame replaces it.
pub(crate) fn frame(frame: Vec<u8>) {
    if let Some(lines) = standard_error() {
        let _ = lines.try_add(frame);
    }
}

/// Prints a line of a long-running program, such as a server's access log, on standard output,
/// without waiting.
pub fn event(line: &str) {
    let line = one_line(line);
    match standard_output() {
        Some(lines) => lines.add(line),
        None => drop(io::Write::write_all(&mut io::stdout().lock(), &line)),
    }
}

/// Prints an argument error or the requested help. `print_styled` prints it with its styles, unless
/// an argument quoted in `text` contains control characters.
pub fn refusal(text: &str, print_styled: impl FnOnce()) {
    match escaped_lines(text) {
        std::borrow::Cow::Borrowed(_) => print_styled(),
        std::borrow::Cow::Owned(_) => status_lines(text.trim_end()),
    }
    finish();
}

/// Returns the width of standard output in columns, if it is a terminal.
pub fn width() -> Option<usize> {
    let (columns, _) = system::output_size()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Prints a result, which may have several lines, on standard output, and waits until it is
/// written. This blocks: do not call it on a thread that serves connections.
///
/// # Errors
///
/// Returns an error if the result cannot be written. A broken pipe is not an error: its reader
/// needs no more output.
pub fn result(line: &str) -> Result<(), Failure> {
    settle();
    let line = format!("{}\n", escaped_lines(line)).into_bytes();
    let written = match standard_output() {
        Some(lines) => lines.write(line),
        None => io::Write::write_all(&mut io::stdout().lock(), &line),
    };
    unless_broken(written)
}

/// Prints the final result of a program that was interrupted, such as a server's counters, on
/// standard output. Waits for at most a second until it is written: a paused reader must not keep
/// the program running.
///
/// # Errors
///
/// Returns the same errors as [`result`], if the outcome is known in time.
pub fn last_result(line: &str) -> Result<(), Failure> {
    settle();
    let line = format!("{}\n", escaped_lines(line)).into_bytes();
    let written = match standard_output() {
        Some(lines) => lines.write_within(line, TIMEOUT),
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

/// Waits for at most a second until the status lines printed so far are written, so that a terminal
/// shows them before the following result.
pub fn settle() {
    if let Some(Some(lines)) = STANDARD_ERROR.get() {
        lines.settle(TIMEOUT);
    }
}

/// Waits until all output is written, for at most a second per stream. The program ends after this.
pub fn finish() {
    for lines in [&STANDARD_OUTPUT, &STANDARD_ERROR] {
        if let Some(Some(lines)) = lines.get() {
            lines.settle(TIMEOUT);
        }
    }
}

/// Prints on standard error why `program` failed, if it did, and waits for the output. Returns its
/// exit status.
pub fn conclude(program: &str, outcome: Result<(), Failure>) -> ExitCode {
    let status = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            status(&format!("{program}: {failure}"));
            ExitCode::from(failure.exit_status())
        }
    };
    finish();
    status
}

/// Returns how many lines were dropped on standard output and on standard error, because their
/// reader was too slow or they could not be written.
pub fn dropped() -> [u64; 2] {
    [&STANDARD_OUTPUT, &STANDARD_ERROR]
        .map(|lines| lines.get().and_then(Option::as_ref).map_or(0, Lines::dropped))
}

/// Prints text for this crate's macros, immediately, for programs that need not remain responsive.
#[doc(hidden)]
pub fn print(text: std::fmt::Arguments<'_>, is_error: bool, end: &str) {
    let text = text.to_string();
    let text = format!("{}{end}", escaped_lines(&text));
    // If the text cannot be written, the error cannot be reported either.
    let _ = match is_error {
        true => io::Write::write_all(&mut io::stderr().lock(), text.as_bytes()),
        false => io::Write::write_all(&mut io::stdout().lock(), text.as_bytes()),
    };
}
