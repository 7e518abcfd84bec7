//! The terminal backend for ratatui. ratatui's own backends would add second versions of libraries
//! that this program already uses.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::Failure;
use crate::foreign::escaped;

/// Escape sequence that switches to the alternate screen and hides the cursor; [`LEAVE`] reverts
/// both. The user's previous screen is restored.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
const PLAIN: &[u8] = b"\x1b[0m";

/// The terminal in raw mode. Its previous mode is restored when this is dropped.
pub(super) struct Screen {
    terminal: Terminal<Drawing<io::Stdout>>,
    before: Termios,
}

impl Screen {
    /// Switches the terminal to raw mode and the alternate screen.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no terminal.
    pub(super) fn open() -> Result<Self, Failure> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(Failure::new("--watch needs a terminal")
                .advise("use --listen for a web page, or neither option for a single verdict"));
        }
        let failed = |error: io::Error| Failure::new(format!("cannot use the terminal: {error}"));
        let before = tcgetattr(io::stdin()).map_err(|error| failed(error.into()))?;
        let terminal = Terminal::new(Drawing(io::stdout())).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(|error| failed(error.into()))?;
        // From here on, dropping this restores the terminal.
        let mut screen = Self { terminal, before };
        screen.terminal.backend_mut().write(ENTER).map_err(failed)?;
        screen.terminal.clear().map_err(failed)?;
        Ok(screen)
    }

    /// Draws the screen, with the current size of the terminal.
    pub(super) fn draw(&mut self, draw: impl Fn(Rect, &mut Buffer)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(|frame| draw(frame.area(), frame.buffer_mut()));
        drawn.map_err(|error| Failure::new(format!("cannot draw in the terminal: {error}")))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If this fails, the terminal is gone.
        let _ = self.terminal.backend_mut().write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Writes ratatui's drawings as ECMA-48 sequences, which every current terminal supports.
struct Drawing<W>(W);

impl<W: Write> Drawing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }
}

impl<W: Write> Backend for Drawing<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut bytes = Vec::new();
        for (x, y, cell) in content {
            write!(bytes, "\x1b[{};{}H\x1b[0", u32::from(y) + 1, u32::from(x) + 1)?;
            for (modifier, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2)] {
                if cell.modifier.contains(modifier) {
                    write!(bytes, ";{code}")?;
                }
            }
            match cell.fg {
                Color::Red => bytes.extend(b";31"),
                Color::Green => bytes.extend(b";32"),
                Color::Yellow => bytes.extend(b";33"),
                // This program uses no other colors.
                _ => {}
            }
            // A symbol is the text that the terminal shows in one cell. ratatui removes control
            // characters, but not other invisible characters.
            let symbol = match escaped(cell.symbol()) {
                Cow::Borrowed(symbol) => symbol,
                Cow::Owned(_) => "\u{fffd}",
            };
            write!(bytes, "m{symbol}")?;
        }
        bytes.extend(PLAIN);
        self.0.write_all(&bytes)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.write_all(b"\x1b[?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.write_all(b"\x1b[?25h")
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.0, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.write_all(b"\x1b[2J")
    }

    fn clear_region(&mut self, _region: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(io::stdout())?;
        Ok(Size::new(size.ws_col, size.ws_row))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = tcgetwinsize(io::stdout())?;
        Ok(WindowSize {
            columns_rows: Size::new(size.ws_col, size.ws_row),
            pixels: Size::new(size.ws_xpixel, size.ws_ypixel),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_place_a_style_and_a_symbol() {
        let mut cell = Cell::new("x");
        cell.fg = Color::Red;
        cell.modifier = Modifier::BOLD;
        let mut drawing = Drawing(Vec::new());
        drawing.draw([(3, 1, &cell)].into_iter()).unwrap();
        assert_eq!(drawing.0, b"\x1b[2;4H\x1b[0;1;31mx\x1b[0m");
        for hostile in ["\u{1b}[2J", "\u{202e}", "a\u{200b}"] {
            let mut drawing = Drawing(Vec::new());
            drawing.draw([(0, 0, &Cell::new(hostile_symbol(hostile)))].into_iter()).unwrap();
            assert_eq!(drawing.0, "\x1b[1;1H\x1b[0m\u{fffd}\x1b[0m".as_bytes());
        }
    }

    /// Cells require symbols with a static lifetime.
    fn hostile_symbol(text: &str) -> &'static str {
        Box::leak(text.to_owned().into_boxed_str())
    }
}
