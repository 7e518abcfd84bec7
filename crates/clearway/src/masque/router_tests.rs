use super::*;

/// An in-memory device.
#[derive(Default)]
struct Script {
    incoming: Mutex<VecDeque<Bytes>>,
    sent: Mutex<Vec<Bytes>>,
}

impl IpDevice for Script {
    fn poll_receive(&self, _: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let next = lock(&self.incoming).pop_front();
        Poll::Ready(next.ok_or_else(|| io::ErrorKind::BrokenPipe.into()))
    }

    fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        lock(&self.sent).push(Bytes::copy_from_slice(packet));
        Ok(())
    }
}

fn packet(destination: &str, number: u8) -> Bytes {
    let mut packet = vec![number; 40];
    match destination.parse().unwrap() {
        IpAddr::V4(address) => {
            packet[0] = 0x45;
            packet[16..20].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            packet[0] = 0x60;
            packet[24..40].copy_from_slice(&address.octets());
        }
    }
    packet.into()
}

/// Routes packets until the device fails.
fn run(router: &IpRouter) -> io::ErrorKind {
    let mut context = Context::from_waker(Waker::noop());
    match core::pin::pin!(router.run()).poll(&mut context) {
        Poll::Ready(error) => error.kind(),
        Poll::Pending => panic!("the device never has nothing"),
    }
}

use core::future::Future;

fn next(port: &IpPort) -> Poll<Result<Bytes, io::ErrorKind>> {
    let mut context = Context::from_waker(Waker::noop());
    port.poll_receive(&mut context).map_err(|error| error.kind())
}

#[test]
fn packets_reach_the_port_of_their_destination() {
    let script = Arc::new(Script::default());
    let router = IpRouter::new(script.clone());
    let [a, b] = [(); 2].map(|()| router.port(QueueLimits::default()));
    assert!(a.add("192.0.2.2".parse().unwrap()) && a.add("2001:db8::2".parse().unwrap()));
    assert!(b.add("192.0.2.3".parse().unwrap()));
    assert!(!b.add("192.0.2.2".parse().unwrap()));
    assert!(next(&a).is_pending());
    let packets =
        [packet("192.0.2.2", 1), packet("192.0.2.3", 2), packet("2001:db8::2", 3), Bytes::new()];
    lock(&script.incoming).extend(packets.iter().cloned());
    lock(&script.incoming).push_back(packet("192.0.2.9", 4));
    assert_eq!(run(&router), io::ErrorKind::BrokenPipe);
    assert_eq!(next(&a), Poll::Ready(Ok(packets[0].clone())));
    assert_eq!(next(&a), Poll::Ready(Ok(packets[2].clone())));
    assert_eq!(next(&a), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
    assert_eq!(next(&b), Poll::Ready(Ok(packets[1].clone())));
    b.try_send(&packets[0]).unwrap();
    assert_eq!(*lock(&script.sent), [packets[0].clone()]);
}

#[test]
fn addresses_are_removed_with_the_last_handle() {
    let router = IpRouter::new(Script::default());
    let port = router.port(QueueLimits::default());
    port.add("192.0.2.2".parse().unwrap());
    port.add("192.0.2.3".parse().unwrap());
    let other = port.clone();
    drop(port);
    assert_eq!(router.addresses(), 2);
    other.remove("192.0.2.2".parse().unwrap());
    assert_eq!(router.addresses(), 1);
    drop(other);
    assert_eq!(router.addresses(), 0);
}

#[test]
fn a_full_queue_drops_the_oldest_packets() {
    let script = Arc::new(Script::default());
    let router = IpRouter::new(script.clone());
    let port = router.port(QueueLimits { datagrams: 3, bytes: 100 });
    port.add("192.0.2.2".parse().unwrap());
    lock(&script.incoming).extend((0..5).map(|number| packet("192.0.2.2", number)));
    run(&router);
    assert_eq!(port.dropped(), 3);
    assert_eq!(next(&port), Poll::Ready(Ok(packet("192.0.2.2", 3))));
    assert_eq!(next(&port), Poll::Ready(Ok(packet("192.0.2.2", 4))));
}

/// The task of a tunnel on the same thread runs before its queue is full.
#[test]
fn a_burst_leaves_time_for_the_tunnels() {
    let script = Arc::new(Script::default());
    let router = IpRouter::new(script.clone());
    let port = router.port(QueueLimits { datagrams: BATCH, bytes: 1 << 20 });
    port.add("192.0.2.2".parse().unwrap());
    lock(&script.incoming).extend((0..250).map(|number| packet("192.0.2.2", number)));
    let mut running = core::pin::pin!(router.run());
    let mut received = 0;
    for _ in 0..250 {
        let polled = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        while let Poll::Ready(Ok(_)) = next(&port) {
            received += 1;
        }
        if polled.is_ready() {
            break;
        }
    }
    assert_eq!((received, port.dropped()), (250, 0));
}
