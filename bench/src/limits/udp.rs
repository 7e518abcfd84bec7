//! Datagrams sent over loopback in batches, with the socket library that `clearway-udp` uses.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, Timespec};

use super::protection::Protection;
use super::{ReceiveOptions, SendOptions};
use crate::batches::{Received, Socket};
use crate::{Outcome, transfer};

/// Maximum number of batches in flight. The receiver sends a report whenever half of them have
/// arrived. So no datagrams are lost, and the kernel queues as few as behind a congestion
/// controller. A larger window would be slower, because it would exceed the caches.
const WINDOW: usize = 6;
/// Time after which the sender stops waiting for datagrams and counts them as lost.
const LOSS: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The sender's counters of its datagrams, in bytes.
#[derive(Default)]
struct Flight {
    sent: u64,
    arrived: u64,
    lost: u64,
}

impl Flight {
    fn is_below(&self, window: usize) -> bool {
        self.sent - self.arrived - self.lost < window as u64
    }

    /// Processes the receiver's reports, and waits while the window is full.
    fn make_room(&mut self, socket: &Socket, window: usize) -> Outcome {
        while !self.is_below(window) {
            let mut number = [0; size_of::<u64>()];
            match socket.socket.recv(&mut number) {
                Ok(_) => {
                    // Reports may be reordered, and datagrams that were counted as lost may still
                    // arrive.
                    let most = self.sent - self.lost;
                    self.arrived = u64::from_be_bytes(number).clamp(self.arrived, most);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !socket.wait(PollFlags::IN, &LOSS)? {
                        self.lost = self.sent - self.arrived;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Sends datagrams as fast as the receiver reports their arrival.
pub(super) fn send(options: &SendOptions) -> Outcome<(u64, Duration)> {
    let socket = Socket::bind(transfer::local_address(options.connect))?;
    let size = usize::from(options.options.size);
    let (_, batch_bytes) = options.options.batch();
    let mut batch = vec![0; batch_bytes];
    let mut sender = Protection::sender()?;
    let (mut flight, began) = (Flight::default(), Instant::now());
    while began.elapsed() < options.options.duration() {
        if options.protected {
            sender.seal_all(&mut batch, size)?;
        }
        flight.make_room(&socket, WINDOW * batch_bytes)?;
        socket.send(options.connect, &batch, size)?;
        flight.sent += batch.len() as u64;
    }
    Ok((flight.arrived, began.elapsed()))
}

/// Receives datagrams for the given time, starting with the first one. Only received bytes are
/// counted.
pub(super) fn receive(options: &ReceiveOptions) -> Outcome<(u64, Duration)> {
    let socket = Socket::bind(options.listen)?;
    println!("listening {}", socket.socket.local_addr()?);
    let receiver = Protection::receiver()?;
    let report_after = (WINDOW / 2 * options.options.batch().1) as u64;
    let mut received = Received::new();
    socket.wait_patiently(PollFlags::IN)?;
    let (mut bytes, mut reported, began) = (0, 0, Instant::now());
    while began.elapsed() < options.options.duration() {
        if !socket.receive(&mut received)? {
            socket.wait_patiently(PollFlags::IN)?;
            continue;
        }
        let mut sender = None;
        for (address, batch, size) in received.batches() {
            if options.protected {
                receiver.open_all(batch, size)?;
            }
            bytes += batch.len() as u64;
            sender = sender.or(Some(address));
        }
        if bytes - reported >= report_after {
            reported = bytes;
            let sender = sender.ok_or("bytes without a sender")?;
            socket.socket.send_to(&bytes.to_be_bytes(), sender)?;
        }
    }
    Ok((bytes, began.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_open_again_when_half_of_it_has_arrived() {
        let [sender, receiver] =
            [(), ()].map(|()| Socket::bind(([127, 0, 0, 1], 0).into()).unwrap());
        let mut flight = Flight { sent: 600, ..Flight::default() };
        assert!(!flight.is_below(600));
        let address = sender.socket.local_addr().unwrap();
        receiver.socket.send_to(&300_u64.to_be_bytes(), address).unwrap();
        flight.make_room(&sender, 600).unwrap();
        assert_eq!((flight.arrived, flight.lost), (300, 0));
        // Lost datagrams do not close the window permanently.
        flight.sent = 900;
        flight.make_room(&sender, 600).unwrap();
        assert_eq!((flight.arrived, flight.lost), (300, 600));
    }
}
