//! A server's metrics, read during a storm.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::place::Prepared;

/// Pause between two readings of the metrics.
const POLLING: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(1);

/// The sum of each metric over all shards. Labels other than the shard's are part of the name.
type Values = BTreeMap<String, f64>;

#[derive(Default)]
struct Seen {
    now: Values,
    before: Values,
    /// The maximum of each metric since the baseline was set.
    most: Values,
}

/// Polls a server's metrics continuously, because the server may exit.
pub(super) struct Metrics {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    pub(super) fn start(address: SocketAddr, place: &Prepared) -> Self {
        let (seen, stop) =
            (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (shared, flag, namespace) = (seen.clone(), stop.clone(), place.clients());
        let thread = std::thread::spawn(move || {
            namespace.enter();
            while !flag.load(Ordering::Relaxed) {
                if let Ok(values) = read(address)
                    && let Ok(mut seen) = shared.lock()
                {
                    for (name, value) in &values {
                        let most = seen.most.entry(name.clone()).or_default();
                        *most = most.max(*value);
                    }
                    seen.now = values;
                }
                std::thread::sleep(POLLING);
            }
        });
        Self { seen, stop, thread: Some(thread) }
    }

    /// Sets the baseline for [`changed`](Self::changed).
    pub(super) fn mark(&self) {
        if let Ok(mut seen) = self.seen.lock() {
            seen.before = seen.now.clone();
            seen.most = seen.now.clone();
        }
    }

    /// Returns the increase of each of these metrics, if it has increased.
    pub(super) fn changed(mut self, names: &[&str]) -> Vec<Option<String>> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = |name: &&str| {
            let most = seen.most.get(*name)?;
            let grown = most - seen.before.get(*name).copied().unwrap_or_default();
            (grown > 0.0).then(|| format!("{name} +{grown}"))
        };
        names.iter().map(changed).collect()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read(address: SocketAddr) -> std::io::Result<Values> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    // Data that was read before an error is still used.
    let _ = stream.take(1 << 20).read_to_string(&mut text);
    Ok(parse(&text))
}

fn parse(text: &str) -> Values {
    let mut values = Values::new();
    for line in text.lines().filter(|line| line.starts_with("clearway_")) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let name = match name.split_once("{shard=") {
            Some((name, _)) => name,
            None => name,
        };
        *values.entry(name.to_owned()).or_default() += value;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn shards_are_added_up() {
        let text = "# TYPE a\nclearway_a{shard=\"0\"} 1\nclearway_a{shard=\"1\"} 2\nclearway_b{class=\"5xx\"} 4\n";
        let values = parse(text);
        assert_eq!(values.get("clearway_a"), Some(&3.0));
        assert_eq!(values.get("clearway_b{class=\"5xx\"}"), Some(&4.0));
    }
}
