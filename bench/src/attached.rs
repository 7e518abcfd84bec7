//! Child-process mode, in which the parent process controls this one through its standard input.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::mpsc::{Receiver, channel};

use clearway::{Endpoint, ShardStatistics};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::Outcome;

/// Exits this process when standard input closes, i.e. when the process holding the other end of
/// the pipe has exited.
pub(crate) fn end_with_input() {
    let _steps = Steps::new();
}

/// The steps of a program. Each line on standard input starts the next step; the process exits when
/// standard input closes.
pub(crate) struct Steps(Receiver<()>);

impl Steps {
    pub(crate) fn new() -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for _line in stdin().lock().lines().map_while(Result::ok) {
                // The receiver may already be gone.
                let _ = sender.send(());
            }
            std::process::exit(1);
        });
        Self(lines)
    }

    /// Prints `said`, and waits for the next line on standard input.
    pub(crate) fn wait(&self, said: &str) -> Outcome {
        println!("{said}");
        stdout().flush()?;
        Ok(self.0.recv()?)
    }
}

/// Returns the lines of standard input, for a program that does other work between them. The
/// process exits when standard input closes.
pub(crate) fn commands() -> UnboundedReceiver<String> {
    let (sender, commands) = unbounded_channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            // The receiver may already be gone.
            let _ = sender.send(line);
        }
        std::process::exit(1);
    });
    commands
}

/// Keeps a server running until it is killed or, if attached, until standard input closes. The
/// server's shards do the work.
pub(crate) fn serve(endpoint: &Endpoint, is_attached: bool) -> Outcome {
    if is_attached {
        return report(endpoint);
    }
    println!("listening {}", endpoint.local_address());
    loop {
        std::thread::park();
    }
}

/// Prints the shards' counters for each line on standard input, until standard input closes.
fn report(endpoint: &Endpoint) -> Outcome {
    let steps = Steps::new();
    let mut said = format!("listening {}", endpoint.local_address());
    loop {
        steps.wait(&said)?;
        let shards: Vec<String> = endpoint.shard_statistics().iter().map(object).collect();
        let steering = endpoint.steering().map_or_else(String::new, |it| it.to_string());
        said = format!(r#"{{"steering":"{steering}","shards":[{}]}}"#, shards.join(","));
    }
}

/// Returns one shard's counters as a JSON object.
fn object(shard: &ShardStatistics) -> String {
    let members = [
        ("accepted", shard.connections_accepted),
        ("received", shard.datagrams_received),
        ("receiving_calls", shard.batches_received),
        ("sent", shard.datagrams_sent),
        ("sending_calls", shard.send_calls),
        ("wakeups", shard.wakeups),
        ("lost", shard.packets_lost),
        ("probe_timeouts", shard.probe_timeouts),
        ("handed_over", shard.handed_over),
        ("handed_in", shard.handed_in),
        ("dropped", shard.hand_over_dropped),
    ];
    let members = members.map(|(name, count)| format!(r#""{name}":{count}"#));
    format!("{{{}}}", members.join(","))
}
