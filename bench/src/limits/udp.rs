//! Datagrams over loopback in batches, through the library for sockets that `clearway-udp` uses.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, Timespec};

use super::protection::Protection;
use super::{ReceiveOptions, SendOptions};
use crate::batches::{Received, Socket};
use crate::{Outcome, transfer};

/// How many batches may be under way. The receiver says each time when half of them have arrived. So nothing is lost, and
/// what waits in the kernel is as little as behind a congestion controller; more would be slower, since it leaves the caches.
const WINDOW: usize = 6;
/// After this a sender no longer waits for what was lost after all.
const LOSS: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What a sender knows of its datagrams, in bytes.
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

    /// Reads how much has arrived, and waits if the window is full.
    fn make_room(&mut self, socket: &Socket, window: usize) -> Outcome {
        while !self.is_below(window) {
            let mut number = [0; size_of::<u64>()];
            match socket.socket.recv(&mut number) {
                Ok(_) => {
                    // Reports may overtake each other, and some of what was given up may arrive.
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

/// Sends as fast as it arrives.
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

/// Receives from the first datagram on. Only bytes that arrive are counted.
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
        // What is lost does not close it for ever.
        flight.sent = 900;
        flight.make_room(&sender, 600).unwrap();
        assert_eq!((flight.arrived, flight.lost), (300, 600));
    }
}
