//! Programs that another one has started, and steers through their standard input.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::mpsc::{Receiver, channel};

use crate::Outcome;

/// Ends this process when its standard input ends: when the program that holds the other end of the pipe has ended.
pub(crate) fn end_with_input() {
    let _steps = Steps::new();
}

/// The steps of a program, each of which begins when there is a line in standard input. The process ends with that.
pub(crate) struct Steps(Receiver<()>);

impl Steps {
    pub(crate) fn new() -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for _line in stdin().lock().lines().map_while(Result::ok) {
                // Nobody may be waiting for it.
                let _ = sender.send(());
            }
            std::process::exit(1);
        });
        Self(lines)
    }

    /// Prints `said`, and waits for the next line.
    pub(crate) fn wait(&self, said: &str) -> Outcome {
        println!("{said}");
        stdout().flush()?;
        Ok(self.0.recv()?)
    }
}
