//! A custom congestion controller: its window grows by half of the acknowledged bytes while no
//! packet is lost or ECN-marked. Otherwise it shrinks by a quarter, once per round trip. It is
//! unfair to other traffic: an example, not a recommendation.
//!
//!     cargo run --example custom_controller

use std::error::Error;
use std::sync::Arc;

use clearway::congestion::{
    Acknowledgement, CongestionResponse, Controller, ControllerFactory, ControllerParameters,
    Phase, RttSnapshot, SendIndex, SentPacket, Snapshot, SpuriousLoss, Suppressor, Suppressors,
};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, Rate, ServerConfig, TransportConfig, VarInt};

/// Creates one controller for each path.
#[derive(Debug)]
struct HalfAndQuarter;

impl ControllerFactory for HalfAndQuarter {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        Box::new(State {
            window: parameters.initial_window(),
            minimum: parameters.minimum_window(),
            maximum: parameters.maximum_window,
            recovery_until: None,
            suppressors: Suppressors::default(),
            events: 0,
        })
    }
}

#[derive(Debug)]
struct State {
    window: u64,
    minimum: u64,
    maximum: u64,
    /// Losses and ECN marks of packets sent before this one belong to a congestion event for which
    /// the window was already reduced.
    recovery_until: Option<SendIndex>,
    suppressors: Suppressors,
    events: u64,
}

impl Controller for State {
    fn name(&self) -> &'static str {
        "half-and-quarter"
    }

    fn on_sent(&mut self, _packet: &SentPacket, _bytes_in_flight: u64) {}

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        let is_new = |index: SendIndex| self.recovery_until.is_none_or(|until| index >= until);
        // ACK frames only count marked packets: assume that the largest acknowledged packet was
        // marked.
        let is_marked = event.newly_ce_marked > 0 && event.largest_acked.is_some_and(is_new);
        let mut response = CongestionResponse::None;
        if is_marked || event.lost.iter().any(|packet| is_new(packet.index)) {
            self.window = (self.window - self.window / 4).max(self.minimum);
            self.recovery_until = Some(event.next_index);
            self.events += 1;
            response = CongestionResponse::Reduced;
        }
        let acknowledged: u64 = event
            .acked
            .iter()
            .filter(|packet| self.recovery_until.is_none_or(|until| packet.index >= until))
            .map(|packet| packet.bytes)
            .sum();
        // A sender that does not use its entire window has not shown that a larger one would be
        // safe.
        if event.was_limited {
            self.window = (self.window + acknowledged / 2).min(self.maximum);
        }
        let is_recovering = self.recovery_until > event.largest_acked;
        self.suppressors.set(Suppressor::Recovery, is_recovering, event.round);
        self.suppressors.set(Suppressor::NotLimited, !event.was_limited, event.round);
        self.suppressors.set(Suppressor::MaximumWindow, self.window == self.maximum, event.round);
        response
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.minimum = 2 * max_datagram_size;
        self.window = self.window.max(self.minimum);
    }

    fn window(&self) -> u64 {
        self.window
    }

    /// The pacing rate is 1.25 windows per round trip, so that the window limits sending, not the
    /// pacer.
    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        Some(Rate::from_transfer(self.window, rtt?.smoothed)?.scaled(5, 4))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.window,
            slow_start_threshold: None,
            minimum_window: self.minimum,
            phase: Phase::Other("half_and_quarter"),
            suppressors: self.suppressors,
            congestion_events: self.events,
            undone_events: 0,
        }
    }
}

const PROTOCOL: &str = "example-download";
const SIZE: usize = 16 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;

    // Only the sender needs the controller: here, the server.
    let transport = TransportConfig::builder().controller(Arc::new(HalfAndQuarter)).build()?;
    let config = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([PROTOCOL])
        .transport(transport);
    let server = Endpoint::server("127.0.0.1:0".parse()?, config)?;
    let address = server.local_address();
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
        let mut send = connection.open_uni().await?;
        send.write_all(&vec![7; SIZE]).await?;
        send.finish()?;
        send.stopped().await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(connection.statistics())
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let mut recv = connection.accept_uni().await?;
    let received = recv.read_to_end(SIZE).await?.len();
    println!("client: {received} bytes received");

    let statistics = serving.await?.map_err(|error| error.to_string())?;
    println!("server: phase {}", statistics.congestion_phase);
    println!("server: window {} bytes", statistics.congestion_window);
    println!("server: {} congestion events", statistics.congestion_events);
    println!("server: {} of {} packets lost", statistics.packets_lost, statistics.packets_sent);
    connection.close(VarInt::ZERO, b"done");
    client.wait_idle().await;
    if received == SIZE { Ok(()) } else { Err("the download is too short".into()) }
}

/// The test that every custom controller should have.
#[cfg(test)]
#[test]
fn it_keeps_the_contract_of_controllers() {
    clearway::congestion::conformance::check(|parameters| HalfAndQuarter.build(parameters));
}
