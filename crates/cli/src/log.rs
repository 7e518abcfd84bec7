//! Output of the library's `tracing` events on standard error. The reporting threads, such as
//! shards, never wait for it.

use std::io::{self, Write};

use clap::Args;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output;

/// The logging option.
#[derive(Args, Debug)]
pub(crate) struct LogOptions {
    /// Log level on standard error: error, warn, info, debug or trace.
    ///
    /// A comma-separated list of TARGET=LEVEL is also accepted, such as warn,clearway_io=debug. The
    /// default is $RUST_LOG; if that is not set, nothing is logged.
    #[arg(long = "log", value_name = "LEVEL", value_parser = parse)]
    filter: Option<Targets>,
}

/// Parses a log level for all targets, or one level per target. A target without a level is
/// rejected: it is more likely a misspelled level.
fn parse(input: &str) -> Result<Targets, String> {
    for part in input.split(',') {
        // `tracing` would accept an empty word as a level.
        let is_level = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
        if !is_level && !part.contains('=') {
            return Err(format!(
                "\"{part}\" is not a level; use error, warn, info, debug or trace"
            ));
        }
    }
    input.parse::<Targets>().map_err(|error| error.to_string())
}

impl LogOptions {
    /// Starts logging, if the option or RUST_LOG requests it.
    pub(crate) fn start(&self) {
        let Some(filter) = self.filter.clone().or_else(from_environment) else { return };
        let layer = layer().with_writer(StandardError).with_filter(filter);
        // Only this function sets a subscriber, and it is called once.
        let _ = tracing_subscriber::registry().with(layer).try_init();
    }
}

fn from_environment() -> Option<Targets> {
    let text = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty())?;
    match text.parse() {
        Ok(filter) => Some(filter),
        Err(error) => {
            output::status(&format!("clearway: ignoring RUST_LOG: {error}"));
            None
        }
    }
}

/// Writer for standard error that does not block.
struct StandardError;

impl MakeWriter<'_> for StandardError {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl Write for StandardError {
    /// Writes an entire line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        output::log(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_lists_of_targets_are_filters_and_words_are_not() {
        for good in ["info", "TRACE", "off", "warn,clearway_io=debug", "clearway_io=info"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["inof", "", "clearway_io", "info,x", "clearway_io=loud"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
