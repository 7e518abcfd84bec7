use std::time::Duration;

use clearway_network::{LinkConfig, Way, Window};
use clearway_units::Timestamp;

/// The state of the relay's loss window, which is the period of the first loss rule that does not
/// always apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LossWindow {
    /// Every loss rule always applies, or there are no loss rules.
    #[default]
    None,
    /// The window has not begun.
    Waiting,
    /// The window is open: datagrams may be lost.
    Open,
    /// The window has ended.
    Over,
}

/// Tracks the loss window for the display. The link itself decides which datagrams are lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossWatch {
    window: Window,
    first: Option<Timestamp>,
    opened: Option<Timestamp>,
    passed: [u64; 2],
}

impl LossWatch {
    pub(super) fn new(config: &LinkConfig) -> Self {
        let rules = config.to_client.loss.iter().chain(&config.to_server.loss);
        let window = rules.map(|rule| rule.window).find(|window| *window != Window::Always);
        Self { window: window.unwrap_or_default(), first: None, opened: None, passed: [0; 2] }
    }

    /// Records that a datagram was submitted to the link, which will deliver a payload of `passed`
    /// bytes; 0 if the datagram is lost.
    pub(super) fn on_submitted(&mut self, now: Timestamp, way: Way, passed: usize) {
        self.first.get_or_insert(now);
        let total = match way {
            Way::ToServer => &mut self.passed[0],
            Way::ToClient => &mut self.passed[1],
        };
        *total = total.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        if let Window::AfterBytes { way: counted, bytes, .. } = self.window
            && self.opened.is_none()
            && counted == way
            && *total >= bytes
        {
            self.opened = Some(now);
        }
    }

    pub(super) fn state(&self, now: Timestamp) -> LossWindow {
        let (start, end) = match self.window {
            Window::Always => return LossWindow::None,
            Window::Absolute { from, until } => (Some(from), Some(until)),
            Window::FromFirstDatagram { after, length } => {
                let start = self.first.map(|first| first + after);
                (start, end(start, length))
            }
            Window::AfterBytes { length, .. } => (self.opened, end(self.opened, length)),
        };
        match start {
            Some(start) if start <= now => match end {
                Some(end) if end <= now => LossWindow::Over,
                _ => LossWindow::Open,
            },
            _ => LossWindow::Waiting,
        }
    }
}

fn end(start: Option<Timestamp>, length: Option<Duration>) -> Option<Timestamp> {
    Some(start? + length?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(milliseconds))
    }

    #[test]
    fn the_window_opens_after_the_bytes_and_closes_after_its_length() {
        let length = Some(Duration::from_millis(100));
        let window = Window::AfterBytes { way: Way::ToClient, bytes: 2000, length };
        let mut watch = LossWatch { window, first: None, opened: None, passed: [0; 2] };
        watch.on_submitted(at(1), Way::ToServer, 5000);
        watch.on_submitted(at(2), Way::ToClient, 1999);
        assert_eq!(watch.state(at(2)), LossWindow::Waiting);
        watch.on_submitted(at(3), Way::ToClient, 1);
        assert_eq!(watch.state(at(3)), LossWindow::Open);
        watch.on_submitted(at(50), Way::ToClient, 9000);
        assert_eq!(watch.state(at(102)), LossWindow::Open);
        assert_eq!(watch.state(at(103)), LossWindow::Over);
    }

    #[test]
    fn the_window_can_open_some_time_after_the_first_datagram() {
        let after = Duration::from_millis(10);
        let window = Window::FromFirstDatagram { after, length: None };
        let mut watch = LossWatch { window, first: None, opened: None, passed: [0; 2] };
        assert_eq!(watch.state(at(50)), LossWindow::Waiting);
        watch.on_submitted(at(50), Way::ToServer, 1);
        assert_eq!(watch.state(at(59)), LossWindow::Waiting);
        assert_eq!(watch.state(at(60)), LossWindow::Open);
        assert_eq!(LossWatch::new(&LinkConfig::default()).state(at(0)), LossWindow::None);
    }
}
