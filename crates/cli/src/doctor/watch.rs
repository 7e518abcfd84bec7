//! `--watch`: the view in a terminal.

mod terminal;

use std::time::Duration;

use clearway_doctor::{Mark, Outcome, Scope, Verdict, diagnose};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Widget, Wrap};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use super::collecting::{Collecting, Pace};
use super::view::View;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use terminal::Screen;

/// Maximum age of the snapshots that are shown.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Ctrl-C arrives as a character, since the terminal is in raw mode.
const CONTROL_C: u8 = 3;

/// Shows the view until the user quits. Returns the last verdict.
pub(super) async fn run(pace: Pace, scope: Scope) -> Result<Verdict, Failure> {
    // The signal handler is installed first, so that no signal leaves the terminal in raw mode.
    let mut interrupt = Interrupt::listen()?;
    let mut screen = Screen::open()?;
    let mut resized = signal(SignalKind::window_change())
        .map_err(|error| Failure::new(format!("cannot track the terminal's size: {error}")))?;
    let mut collecting = Collecting::without_end(pace, WINDOW)?;
    let mut keys = tokio::io::stdin();
    let mut key = [0; 1];
    let (mut view, mut verdict) = (View::of(&[], scope).0, diagnose(&[]));
    loop {
        screen.draw(|area, buffer| draw(&view, area, buffer))?;
        tokio::select! {
            has_ended = collecting.progress() => {
                if has_ended {
                    return Err(Failure::new("the doctor has stopped taking snapshots"));
                }
                (view, verdict) = View::of(&collecting.snapshots(), scope);
            }
            read = keys.read(&mut key) => match read {
                Ok(1) if ![b'q', b'Q', CONTROL_C].contains(&key[0]) => {}
                _ => return Ok(verdict),
            },
            // The next drawing uses the new size.
            _ = resized.recv() => {}
            _ = interrupt.received() => return Ok(verdict),
        }
    }
}

fn draw(view: &View, area: Rect, buffer: &mut Buffer) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let headline = match view.outcome {
        Outcome::NoLoss | Outcome::Stray => bold.green(),
        Outcome::Loss => bold.red(),
        Outcome::Unknown => bold.yellow(),
    };
    let mut lines = vec![Line::styled(view.headline.clone(), headline), Line::default()];
    for row in &view.rows {
        lines.extend(row.heading().map(|heading| Line::styled(heading, bold)));
        let style = match row.mark {
            Mark::NotSeen => Style::new().add_modifier(Modifier::DIM),
            Mark::Loses => Style::new().yellow(),
            Mark::Worst if view.outcome == Outcome::Loss => bold.red(),
            Mark::Worst => bold.yellow(),
            _ => Style::new(),
        };
        lines.push(Line::styled(row.line(), style));
    }
    lines.push(Line::default());
    lines.extend(view.details.iter().map(|line| Line::raw(line.clone())));
    lines.push(Line::styled("q: quit", Style::new().add_modifier(Modifier::DIM)));
    Paragraph::new(Text::from(lines)).wrap(Wrap { trim: false }).render(area, buffer);
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::view;
    use super::*;

    fn drawn(width: u16, height: u16) -> Buffer {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw(&view(), area, &mut buffer);
        buffer
    }

    #[test]
    fn the_losing_stage_is_red_and_bold() {
        let buffer = drawn(100, 40);
        let line = |y| (0..100).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let at = (0..40).find(|y| line(*y).starts_with(">> socket")).unwrap();
        assert!(line(at).contains("1,000/s lost: rate"));
        let style = buffer[(0, at)].style();
        assert_eq!(style.fg, Some(ratatui::style::Color::Red));
        assert!(style.add_modifier.contains(Modifier::BOLD));
    }

    #[test]
    fn any_size_of_a_terminal_will_do() {
        for (width, height) in [(0, 0), (1, 1), (3, 200), (500, 2)] {
            drawn(width, height);
        }
    }
}
