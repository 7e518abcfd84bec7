//! The output of `--check`, and descriptions of a `--backends` file for other messages.

use clearway_balancer::{Server, ServerState};
use serde_json::{Value, json};

use super::backends::Backends;

impl Backends {
    /// Summarizes the file in one line.
    pub(super) fn summary(&self) -> String {
        let count = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let taking = self.servers.iter().filter(|server| server.takes_new_clients()).count();
        let mut summary =
            [count(self.servers.len(), "server"), count(self.configs.len(), "config")].join(", ");
        if taking < self.servers.len() {
            summary.push_str(&format!("; new clients go to {taking} of the servers"));
        }
        summary
    }

    /// Formats the file as tables.
    pub(super) fn text(&self) -> String {
        let mut text = self.summary();
        for source in &self.sources {
            text.push_str(&format!("; servers from {} (not queried)", source.origin));
        }
        if !self.configs.is_empty() {
            text.push_str("\n\n");
            text.push_str(&columns(&self.config_rows()));
        }
        if !self.servers.is_empty() {
            text.push_str("\n\n");
            text.push_str(&columns(&self.server_rows()));
        }
        text.push_str("\n\n");
        text.push_str(&self.checks_text());
        if let Some(above) = self.retry_above {
            text.push_str(&format!(
                "\n\nnew clients get a Retry above {above} Initial packets per second"
            ));
        }
        text
    }

    /// Formats the file as JSON for scripts, without secret keys.
    pub(super) fn json(&self) -> Value {
        let configs = self.configs.iter().map(|codec| {
            json!({
                "id": codec.config().number(),
                "server_id_length": codec.server_id_len(),
                "nonce_length": codec.nonce_len(),
                "further_octets": codec.extra_len(),
                "connection_id_length": codec.id_len(),
                "is_encrypted": codec.is_encrypted(),
            })
        });
        let servers = self.servers.iter().map(|server| {
            let ids = server.ids.iter();
            let ids = ids.map(|(config, id)| (config.number().to_string(), id.to_string().into()));
            json!({
                "name": server.name,
                "address": server.address.to_string(),
                "server_ids": ids.collect::<serde_json::Map<String, Value>>(),
                "connection_id_length": server.id_len,
                "weight": server.weight,
                "is_draining": server.state == ServerState::Draining,
                "has_preface": server.has_preface,
                "share_of_new_clients": self.share(server),
            })
        });
        json!({
            "configs": configs.collect::<Vec<_>>(),
            "servers": servers.collect::<Vec<_>>(),
            "sources": self.sources.iter().map(|it| it.origin.to_string()).collect::<Vec<_>>(),
            "checks": !self.health.is_off,
        })
    }

    /// Returns a server's share of new clients, from 0 to 1, while all servers are up.
    fn share(&self, server: &Server) -> f64 {
        let taking = self.servers.iter().filter(|server| server.takes_new_clients());
        let sum: u64 = taking.map(|server| u64::from(server.weight)).sum();
        match server.takes_new_clients() {
            true => f64::from(server.weight) / sum as f64,
            false => 0.0,
        }
    }

    fn config_rows(&self) -> Vec<Vec<String>> {
        let head = ["config", "server ID", "nonce", "further", "connection ID", "encryption"];
        let rows = self.configs.iter().map(|codec| {
            let encryption = match codec.is_encrypted() {
                false => "none: everyone can read the server ID",
                true if codec.server_id_len() + codec.nonce_len() == 16 => "AES-128, one pass",
                true => "AES-128, four passes",
            };
            vec![
                codec.config().number().to_string(),
                codec.server_id_len().to_string(),
                codec.nonce_len().to_string(),
                codec.extra_len().to_string(),
                format!("{} octets", codec.id_len()),
                encryption.to_owned(),
            ]
        });
        std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect()
    }

    fn server_rows(&self) -> Vec<Vec<String>> {
        let head = ["server", "address", "server IDs", "preface", "weight", "share of new clients"];
        let rows = self.servers.iter().map(|server| {
            let ids = server.ids.iter();
            let ids: Vec<_> =
                ids.map(|(config, id)| format!("{}: {id}", config.number())).collect();
            let share = match server.state {
                ServerState::Draining => "draining".to_owned(),
                _ => format!("{:.1} %", self.share(server) * 100.0),
            };
            vec![
                server.name.clone(),
                server.address.to_string(),
                if ids.is_empty() { "none".to_owned() } else { ids.join(", ") },
                if server.has_preface { "yes" } else { "no" }.to_owned(),
                server.weight.to_string(),
                share,
            ]
        });
        std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect()
    }

    fn checks_text(&self) -> String {
        let checks = &self.health;
        let settings = &checks.settings;
        if checks.is_off {
            return "servers are not checked".to_owned();
        }
        format!(
            "servers are checked every {:?} with a timeout of {:?}; a server is down after {} \
             failures and up after {} successes, and gets its full share after {:?}",
            settings.interval,
            checks.timeout,
            settings.down_after,
            settings.up_after,
            settings.slow_start
        )
    }
}

/// Formats rows with aligned columns.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
