use std::time::{Duration, Instant};

/// A load at a fixed rate, regardless of response times: no operation waits for an earlier
/// response, and latency is measured from the due time. So a stall of either endpoint remains
/// visible.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Duration,
    count: usize,
}

impl Pace {
    /// Creates a schedule of `count` operations at `rate` operations per second.
    pub fn new(rate: f64, count: usize) -> Self {
        Self { interval: Duration::from_secs_f64(1.0 / rate), count }
    }

    /// Calls `due` for each operation when it is due, with the operation's number and due time,
    /// until all operations are done or `due` returns `false`. The calls are made on a separate
    /// thread, because tokio's timers are up to a millisecond late.
    pub fn start(self, mut due: impl FnMut(usize, Instant) -> bool + Send + 'static) {
        std::thread::spawn(move || {
            let start = Instant::now();
            for number in 0..self.count {
                let at = start + self.interval.mul_f64(number as f64);
                let wait = at.saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                if !due(number, at) {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn operations_are_due_at_even_distances_however_late_the_thread_is() {
        let (sender, all) = channel();
        Pace::new(1000.0, 5).start(move |number, due| {
            if number == 1 {
                std::thread::sleep(Duration::from_millis(3));
            }
            sender.send((number, due)).is_ok()
        });
        let all: Vec<_> = all.iter().collect();
        let start = all[0].1;
        let expected: Vec<_> =
            (0..5).map(|it| (it as usize, start + Duration::from_millis(it))).collect();
        assert_eq!(all, expected);
    }
}
