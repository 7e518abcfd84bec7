//! `clearway link`: a relay that spoils UDP for any program.

mod arguments;
mod report;
mod settings;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use clearway_network::{LinkConfig, Rebind, Way, parse_duration};

use crate::address::resolve_one;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::relay::{Relay, RelayConfig};
use arguments::DirectionArguments;

/// Relay UDP and spoil it: delay, loss, a bottleneck, rebinding and more.
///
/// Every datagram that comes to --listen goes to --to, from a socket of its own per client, and the
/// answers go back. No privileges are needed. Interrupt it (Ctrl-C) to see what it did.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LinkCommand {
    /// Where programs send to instead of to the server; port 0 takes any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4434")]
    listen: SocketAddr,
    /// Where the server is.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    #[command(flatten)]
    directions: DirectionArguments,
    /// Give clients a new source port this often.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Rebinding")]
    rebind_every: Option<Duration>,
    /// Give clients a new source port this long after the first datagram.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Rebinding")]
    rebind_after: Option<Duration>,
    /// Change the address, too: another one of 127.0.0.0/8, for a server on it.
    #[arg(long, help_heading = "Rebinding")]
    rebind_address: bool,
    /// Decides everything that is random.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the counters as one JSON object.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Every option under \"Network conditions\" is for both directions. Put to-server- or to-client- before \
its name to have it for one direction only; that goes over what is for both.

Examples:
  A round trip of 30 ms, 10 Mbit/s down, a queue of 50 datagrams:
    clearway link --to 127.0.0.1:4433 --delay 15ms --to-client-rate 10mbit --to-client-queue 50
  30 % loss both ways for 2 s, once 50 kB have gone to the client:
    clearway link --to 127.0.0.1:4433 --delay 5ms --loss 30% --loss-after-bytes 50kB --loss-for 2s
  A NAT that forgets its mapping every 3 s:
    clearway link --to example.org:443 --rebind-every 3s";

/// Runs the command.
pub(crate) async fn run(command: LinkCommand) -> Result<(), Failure> {
    let json = command.json;
    let config = config(command).await?;
    let to = config.to;
    let mut interrupt = Interrupt::listen()?;
    let mut relay = Relay::start(config)?;
    output::status(&format!(
        "relaying {} to {to}; interrupt with Ctrl-C to end",
        relay.local_address()
    ));
    let outcome = tokio::select! {
        _ = interrupt.heard() => Ok(()),
        failure = relay.failed() => Err(failure),
    };
    let status = relay.stop().await;
    output::result(&match json {
        true => report::json(&status).to_string(),
        false => report::text(&status),
    })?;
    outcome
}

async fn config(command: LinkCommand) -> Result<RelayConfig, Failure> {
    let conditions = |way| {
        let conditions = command.directions.conditions(way);
        conditions.map_err(|error| Failure::new(format!("these options do not fit: {error}")))
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
            Err(Failure::new("--rebind-address says how to rebind, but not when")
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
