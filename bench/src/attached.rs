//! Programs that another one has started, and steers through their standard input.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::mpsc::{Receiver, channel};

use clearway::{Endpoint, ShardStatistics};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

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

/// The lines of standard input, for a program that does other things until the next one comes. The process ends with that.
pub(crate) fn commands() -> UnboundedReceiver<String> {
    let (sender, commands) = unbounded_channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            // Nobody may be waiting for it.
            let _ = sender.send(line);
        }
        std::process::exit(1);
    });
    commands
}

/// Keeps a server whose work is done by its shards: until it is killed, or, if it is attached, until standard input ends.
pub(crate) fn serve(endpoint: &Endpoint, is_attached: bool) -> Outcome {
    if is_attached {
        return report(endpoint);
    }
    println!("listening {}", endpoint.local_address());
    loop {
        std::thread::park();
    }
}

/// Prints what the shards of a server have counted for each line in standard input, which it ends with.
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

/// What one shard has counted, as a JSON object.
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
