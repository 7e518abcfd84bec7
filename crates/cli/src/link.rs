//! `clearway link`: a UDP relay that impairs the traffic of any program.

mod arguments;
mod report;
mod settings;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use clearway_network::{LinkConfig, Rebind, Way, parse_duration};

use crate::address::{self, resolve_one};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::relay::{Relay, RelayConfig};
use arguments::DirectionArguments;

/// Relay UDP and impair it: delay, loss, a bottleneck, NAT rebinding and more.
///
/// Every datagram that arrives at --listen is sent to --to, from a separate socket for each client,
/// and the server's datagrams are sent back. No privileges are needed. Interrupt it (Ctrl-C) to
/// print its counters.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LinkCommand {
    /// The address that clients connect to; port 0 selects any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4434", value_parser = address::parse)]
    listen: SocketAddr,
    /// The address of the server.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    #[command(flatten)]
    directions: DirectionArguments,
    /// Interval at which clients get a new source port.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Rebinding")]
    rebind_every: Option<Duration>,
    /// Give clients a new source port this long after the first datagram.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Rebinding")]
    rebind_after: Option<Duration>,
    /// Also change the IP address within 127.0.0.0/8; for servers on 127.0.0.1 only.
    #[arg(long, help_heading = "Rebinding")]
    rebind_address: bool,
    /// Seed of all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the counters as one JSON object.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Every option under \"Network conditions\" applies to both directions. With the prefix \
to-server- or to-client- (as in --to-client-rate), an option applies to that direction only, and overrides the one \
for both.

Examples:
  A round trip of 30 ms, 10 Mbit/s to the client, a queue of 50 datagrams, Ethernet's MTU (IPv4):
    clearway link --to 127.0.0.1:4433 --delay 15ms --to-client-rate 10mbit --to-client-queue 50 --mtu 1472
  30 % loss in both directions for 2 s, after 50 kB to the client:
    clearway link --to 127.0.0.1:4433 --delay 5ms --loss 30% --loss-after-bytes 50kB --loss-for 2s
  An Ethernet path (IPv4) that carries at most 1300 bytes of UDP payload after 2 s:
    clearway link --to 127.0.0.1:4433 --delay 15ms --mtu 1472,1300@2s
  A NAT that rebinds every 3 s:
    clearway link --to example.org:443 --rebind-every 3s";

/// Runs the command.
pub(crate) async fn run(command: LinkCommand) -> Result<(), Failure> {
    let json = command.json;
    let config = config(command).await?;
    let to = config.to;
    let mut interrupt = Interrupt::listen()?;
    let mut relay = Relay::start(config)?;
    output::status(&format!("relaying {} to {to}; press Ctrl-C to end", relay.local_address()));
    let outcome = tokio::select! {
        _ = interrupt.received() => Ok(()),
        failure = relay.failed() => Err(failure),
    };
    let status = relay.stop().await;
    output::last_result(&match json {
        true => report::json(&status).to_string(),
        false => report::text(&status),
    })?;
    outcome
}

async fn config(command: LinkCommand) -> Result<RelayConfig, Failure> {
    let conditions = |way| {
        let conditions = command.directions.conditions(way);
        conditions.map_err(|error| Failure::new(format!("conflicting options: {error}")))
    };
    let link = LinkConfig {
        to_server: conditions(Way::ToServer)?,
        to_client: conditions(Way::ToClient)?,
        rebind: rebind(&command)?,
        seed: command.seed,
        ..LinkConfig::default()
    };
    let to = resolve_one(&command.to, Some(command.listen)).await?;
    Ok(RelayConfig { listen: command.listen, to, link })
}

fn rebind(command: &LinkCommand) -> Result<Option<Rebind>, Failure> {
    match (command.rebind_after, command.rebind_every) {
        (None, None) if command.rebind_address => {
            Err(Failure::new("--rebind-address has no effect without a time at which to rebind")
                .advise("add --rebind-every or --rebind-after"))
        }
        (None, None) => Ok(None),
        (after, every) => Ok(after.or(every).map(|first| Rebind {
            first,
            every,
            address: command.rebind_address,
        })),
    }
}
