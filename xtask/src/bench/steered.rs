//! Which datagrams of a port with several shards the kernel gave to the right one, as `clearway-bench server --attached` counts.

use serde_json::Value;

use crate::measure::Process;

/// What the shards of a server have counted together.
#[derive(PartialEq, Debug)]
pub(super) struct Steered {
    /// How the kernel finds the shard of a datagram; empty with one shard.
    pub(super) method: String,
    /// Datagrams that arrived at the shard that they were for.
    pub(super) right: u64,
    /// Those that another shard has given to theirs.
    pub(super) handed_over: u64,
    /// Those that were lost because too many waited for that.
    pub(super) dropped: u64,
    /// How many connections each shard has.
    pub(super) connections: Vec<u64>,
}

impl Steered {
    /// Asks a server that was started with `--attached`.
    pub(super) fn ask(server: &mut Process) -> Result<Self, String> {
        server.go_on()?;
        let line = server.next_line().ok_or("the server has ended; the reason is said above")?;
        let counts: Value =
            serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
        Self::read(&counts).ok_or_else(|| format!("the server has printed unknown counts: {line}"))
    }

    fn read(counts: &Value) -> Option<Self> {
        let shards = counts["shards"].as_array()?;
        let all = |name: &str| -> Option<Vec<u64>> {
            shards.iter().map(|shard| shard[name].as_u64()).collect()
        };
        let sum = |name: &str| Some(all(name)?.iter().sum::<u64>());
        let (handed_over, dropped) = (sum("handed_over")?, sum("dropped")?);
        Some(Self {
            method: counts["steering"].as_str()?.to_owned(),
            right: sum("received")?.saturating_sub(handed_over + dropped),
            handed_over,
            dropped,
            connections: all("connections")?,
        })
    }

    /// For a person.
    pub(super) fn text(&self) -> String {
        let Self { method, right, handed_over, dropped, .. } = self;
        let method = if method.is_empty() { "one shard" } else { method };
        format!("{right} steered right, {handed_over} handed over, {dropped} dropped ({method})")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_handed_over_was_steered_right() {
        let shard = |received: u64, handed_over: u64| {
            json!({
                "connections": 3, "received": received, "handed_over": handed_over,
                "handed_in": 0, "dropped": 1,
            })
        };
        let counts = json!({"steering": "by hash", "shards": [shard(100, 10), shard(50, 5)]});
        let steered = Steered::read(&counts).unwrap();
        assert_eq!(steered.connections, [3, 3]);
        let said = "133 steered right, 15 handed over, 2 dropped (by hash)";
        assert_eq!(steered.text(), said);
        assert_eq!(Steered::read(&json!({})), None);
    }
}
