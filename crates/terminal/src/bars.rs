//! Progress bars that do not block on a stopped terminal.

use std::io;

use clearway_units::foreign::escaped;
use indicatif::{ProgressDrawTarget, TermLike};

use crate::lines::Frame;
use crate::output;
use crate::system;

/// Returns the target for progress bars: standard error if it is a terminal, otherwise a hidden
/// target.
pub fn target() -> ProgressDrawTarget {
    let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
    match is_terminal && system::understands_sequences() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(StandardError::default()), 20),
        false => ProgressDrawTarget::hidden(),
    }
}

/// The terminal that is connected to standard error. Output is written when it is flushed, after
/// all queued lines.
#[derive(Debug, Default)]
struct StandardError(Frame);

impl StandardError {
    fn draw(&self, text: &str) -> io::Result<()> {
        self.0.append(text.as_bytes());
        Ok(())
    }

    fn move_cursor(&self, lines_or_columns: usize, direction: char) -> io::Result<()> {
        match lines_or_columns {
            0 => Ok(()),
            count => self.draw(&format!("\x1b[{count}{direction}")),
        }
    }
}

impl TermLike for StandardError {
    fn width(&self) -> u16 {
        system::error_size().map_or(80, |(columns, _)| columns)
    }

    fn height(&self) -> u16 {
        system::error_size().map_or(24, |(_, rows)| rows)
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.move_cursor(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.move_cursor(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.move_cursor(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.move_cursor(columns, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)?;
        self.draw("\n")
    }

    /// Bars have no styles, so everything except the carriage return before a frame is text, which
    /// is escaped.
    fn write_str(&self, text: &str) -> io::Result<()> {
        match text {
            "\r" => self.draw(text),
            _ => self.draw(&escaped(text)),
        }
    }

    fn clear_line(&self) -> io::Result<()> {
        self.draw("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let frame = self.0.take();
        if !frame.is_empty() {
            output::frame(frame);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_moves_the_cursor_as_a_terminal_does() {
        let terminal = StandardError::default();
        terminal.move_cursor_up(2).unwrap();
        terminal.move_cursor_down(0).unwrap();
        terminal.clear_line().unwrap();
        terminal.write_line("a").unwrap();
        terminal.write_str("b\u{1b}[1m\r").unwrap();
        terminal.write_str("\r").unwrap();
        assert_eq!(terminal.0.take(), b"\x1b[2A\r\x1b[2Ka\nb\\u001b[1m\\r\r");
    }
}
