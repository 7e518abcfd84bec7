//! Tests of combinations of a link's features.

use core::time::Duration;

use super::*;
use crate::testing::{at_ms, datagram, drain, flows, likely, link_to_client, ms, stream};
use crate::{
    AckFilter, CoDel, Discipline, DropReason, DualPi2, Ecn, Freezes, Host, LossModel, LossRule,
    Policer, QueueLimit, Step, Trace, Window,
};

/// 10 Mbit/s, at which 1250 bytes take a millisecond.
const RATE: Rate = Rate::from_bits_per_second(10_000_000);

/// Creates a link to the client that records its drops.
fn talkative(to_client: Conditions) -> Link {
    Link::new(LinkConfig { to_client, record_drops: true, ..LinkConfig::default() })
}

fn drops(link: &mut Link) -> Vec<Dropped> {
    core::iter::from_fn(|| link.next_drop()).collect()
}

/// Returns conditions with every mechanism in use.
fn crowded(discipline: Discipline) -> Conditions {
    let host = Host {
        service: Duration::from_micros(300),
        batch_service: Duration::from_micros(500),
        batch: 4,
        buffer: QueueLimit { packets: Some(20), bytes: None },
    };
    let freezes =
        Freezes { start: ms(200), period: ms(100), length: ms(30), count: None, spread: ms(50) };
    Conditions {
        delay: ms(10),
        rate: Some(RATE),
        queue: QueueLimit { packets: Some(100), bytes: None },
        discipline,
        policer: Some(Policer::with_packets(RATE.scaled(3, 1), 30)),
        ack_filter: Some(AckFilter { keep_one_of: 3, smaller_than: 100 }),
        freezes: Some(freezes),
        host: Some(host),
        loss: vec![LossRule::random(likely(0.02))],
        duplicate: likely(0.01),
        ..Conditions::default()
    }
}

/// Sends for two seconds in both directions, sometimes above the rate, and returns a digest of the
/// deliveries and drops.
fn digest(discipline: Discipline, seed: u64) -> u64 {
    let mut link = Link::new(LinkConfig {
        to_server: crowded(discipline),
        to_client: crowded(discipline),
        flows: vec![FlowDelay { flow: 1, to_server: ms(40), to_client: ms(3) }],
        seed,
        record_drops: true,
        rebind: None,
        disturbances: Vec::new(),
    });
    for number in 0..4000u32 {
        let now = Timestamp::from_nanos(500_000 * u64::from(number));
        let way = if number % 3 == 0 { Way::ToServer } else { Way::ToClient };
        let length = if number % 7 < 3 { 60 } else { 1200 };
        let ecn = Ecn::from_bits(u8::try_from(number % 4).unwrap());
        link.submit(now, way, Datagram { ecn, ..datagram(number % 2, length) });
        if (1000..1300).contains(&number) {
            link.submit(now, way, Datagram { ecn, ..datagram(2, 1200) });
        }
    }
    // The digest is FNV-1a.
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |numbers: [u64; 4]| {
        for byte in numbers.iter().flat_map(|number| number.to_le_bytes()) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for one in drain(&mut link) {
        let queued = u64::try_from(one.queued.as_nanos()).unwrap();
        add([one.at.as_nanos(), one.number, queued, one.datagram.ecn.bits().into()]);
    }
    for one in drops(&mut link) {
        add([one.at.as_nanos(), one.number, one.is_copy.into(), one.length.try_into().unwrap()]);
    }
    digest
}

#[test]
fn crowded_links_are_the_same_on_every_machine() {
    // A change here means that recorded seeds no longer replay.
    let codel = Discipline::CoDel(CoDel { ecn: true, ..CoDel::default() });
    let dual = Discipline::DualPi2(DualPi2::default());
    let digests = [Discipline::DropTail, codel, dual].map(|discipline| digest(discipline, 7));
    let expected = [1_655_593_306_923_327_148, 16_061_017_089_501_306_380, 299_981_669_606_828_594];
    assert_eq!(digests, expected);
    assert_ne!(digest(dual, 7), digest(dual, 8));
}

#[test]
fn codel_drops_after_entry_and_reports_it() {
    let discipline = Discipline::CoDel(CoDel::default());
    let mut link = talkative(Conditions { rate: Some(RATE), discipline, ..Conditions::default() });
    let deliveries = stream(&mut link, 400, 1250, Duration::ZERO);
    let drops = drops(&mut link);
    assert_eq!(drops.len(), 400 - deliveries.len());
    assert_eq!(u64::try_from(drops.len()), Ok(link.counters().to_client.dropped_queue_management));
    assert_eq!(drops[0].at, at_ms(105));
    for one in &drops {
        assert_eq!((one.reason, one.length), (DropReason::QueueManagement, 1250));
        assert!(deliveries.iter().all(|delivery| delivery.number != one.number));
    }
}

#[test]
fn codel_with_ecn_marks_and_the_delivery_shows_it() {
    let discipline = Discipline::CoDel(CoDel { ecn: true, ..CoDel::default() });
    let mut link = talkative(Conditions { rate: Some(RATE), discipline, ..Conditions::default() });
    let deliveries = stream(&mut link, 400, 1250, Duration::ZERO);
    assert_eq!(deliveries.len(), 400);
    let marked: Vec<_> = deliveries.iter().filter(|delivery| delivery.is_marked).collect();
    assert!(marked.len() > 3 && drops(&mut link).is_empty());
    assert!(marked.iter().all(|delivery| delivery.datagram.ecn == Ecn::Ce));
    assert_eq!(u64::try_from(marked.len()), Ok(link.counters().to_client.marked));
}

#[test]
fn low_latency_traffic_overtakes_in_a_dual_queue() {
    let discipline = Discipline::DualPi2(DualPi2::default());
    let mut link =
        link_to_client(Conditions { rate: Some(RATE), discipline, ..Conditions::default() });
    for flow in 0..20 {
        link.submit(at_ms(0), Way::ToClient, datagram(flow, 1250));
    }
    let datagram = Datagram { ecn: Ecn::Ect1, ..datagram(99, 1250) };
    link.submit(Timestamp::from_nanos(500_000), Way::ToClient, datagram);
    let deliveries = drain(&mut link);
    assert_eq!(flows(&deliveries)[..3], [0, 99, 1]);
    assert_eq!(deliveries[1].queued, Duration::from_micros(500));
}

#[test]
fn a_policer_drops_before_the_queue_and_delays_nothing() {
    let policer = Some(Policer::with_packets(RATE, 8));
    let mut link = link_to_client(Conditions { delay: ms(5), policer, ..Conditions::default() });
    let deliveries = stream(&mut link, 1000, 1250, Duration::from_micros(500));
    assert!((505..515).contains(&deliveries.len()), "{}", deliveries.len());
    assert!(deliveries.iter().all(|delivery| delivery.at == delivery.entered + ms(5)));
    let counters = &link.counters().to_client;
    assert_eq!(counters.dropped_policer, counters.dropped());
}

#[test]
fn a_freeze_compresses_deliveries() {
    let freezes =
        Freezes { start: ms(10), period: ms(100), length: ms(20), count: Some(1), spread: ms(0) };
    let conditions = Conditions { delay: ms(2), freezes: Some(freezes), ..Conditions::default() };
    let deliveries = stream(&mut link_to_client(conditions), 40, 100, ms(1));
    for delivery in &deliveries {
        let at = delivery.entered + ms(2);
        let is_held = at >= at_ms(10) && at < at_ms(30);
        assert_eq!(delivery.at, if is_held { at_ms(30) } else { at });
    }
    assert!(flows(&deliveries).is_sorted());
}

#[test]
fn an_ack_filter_thins_out_waiting_datagrams() {
    let ack_filter = Some(AckFilter { keep_one_of: 4, smaller_than: 100 });
    let conditions = Conditions { rate: Some(RATE), ack_filter, ..Conditions::default() };
    let mut link = talkative(conditions);
    link.submit(at_ms(0), Way::ToClient, datagram(0, 1250));
    for number in 0..9 {
        link.submit(at_ms(0), Way::ToClient, datagram(1, 50));
        if number == 5 {
            link.submit(at_ms(0), Way::ToClient, datagram(1, 1250));
        }
    }
    // One of every four small datagrams is kept, and so is the newest. The large datagram and the
    // other flow are not affected.
    let numbers: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.number).collect();
    assert_eq!(numbers, [0, 4, 7, 9, 10]);
    let drops = drops(&mut link);
    assert!(drops.iter().all(|one| one.reason == DropReason::AckFilter && one.flow == 1));
    assert_eq!(link.flow(Way::ToClient, 1).map(|flow| flow.dropped), Some(6));
    assert_eq!(link.queue_packets(Way::ToClient), 0);
}

#[test]
fn flows_share_the_bottleneck_and_have_delays_of_their_own() {
    let conditions = Conditions { delay: ms(10), rate: Some(RATE), ..Conditions::default() };
    let mut link = Link::new(LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        flows: vec![
            FlowDelay { flow: 7, to_server: ms(1), to_client: ms(90) },
            FlowDelay { flow: 7, to_server: ms(500), to_client: ms(500) },
        ],
        ..LinkConfig::default()
    });
    for flow in [7, 3, 7, 3] {
        link.submit(at_ms(0), Way::ToClient, datagram(flow, 1250));
    }
    link.submit(at_ms(0), Way::ToServer, datagram(7, 1250));
    let out: Vec<_> = drain(&mut link).iter().map(|one| (one.datagram.flow, one.at)).collect();
    assert_eq!(out, [(3, 12), (7, 12), (3, 14), (7, 101), (7, 103)].map(|(f, at)| (f, at_ms(at))));
    let flow = |flow| *link.flow(Way::ToClient, flow).unwrap();
    assert_eq!((flow(7).queueing_delay_maximum, flow(3).queueing_delay_maximum), (ms(2), ms(3)));
    assert_eq!(flow(3).queueing_delay_mean(), Some(ms(2)));
    assert_eq!((flow(7).delivered, flow(7).delivered_bytes), (2, 2500));
    assert_eq!(link.flow(Way::ToServer, 3), None);
    assert_eq!(link.base_delay(Way::ToClient, 7, at_ms(0)), ms(100));
    assert_eq!(link.base_delay(Way::ToServer, 3, at_ms(0)), ms(10));
}

#[test]
fn a_checker_can_read_the_queue_the_rate_and_the_delay() {
    let step = |after, value| Step { after: ms(after), value };
    let conditions = Conditions {
        delay: ms(10),
        delay_steps: vec![step(50, ms(30))],
        rate: Some(RATE),
        rate_steps: vec![Step { after: ms(20), value: Some(Rate::ZERO) }],
        overhead: 50,
        ..Conditions::default()
    };
    let mut link = link_to_client(conditions);
    for _ in 0..4 {
        link.submit(at_ms(100), Way::ToClient, datagram(0, 1200));
    }
    assert_eq!((link.queue_bytes(Way::ToClient), link.queue_packets(Way::ToClient)), (3750, 3));
    link.poll(at_ms(102));
    assert_eq!((link.queue_bytes(Way::ToClient), link.queue_packets(Way::ToClient)), (1250, 1));
    assert_eq!(link.queue_bytes(Way::ToServer), 0);
    // Steps count from the first datagram, at 100 ms.
    let rate = |at| link.rate(Way::ToClient, at_ms(at));
    assert_eq!([rate(0), rate(119), rate(120)], [Some(RATE), Some(RATE), Some(Rate::ZERO)]);
    assert_eq!(link.rate(Way::ToServer, at_ms(0)), None);
    let delay = |at| link.base_delay(Way::ToClient, 0, at_ms(at));
    assert_eq!([delay(149), delay(150)], [ms(10), ms(30)]);
}

#[test]
fn a_trace_drives_the_bottleneck() {
    let trace = Trace::parse("1\n1\n5\n10\n").unwrap();
    let conditions = Conditions { delay: ms(3), trace: Some(trace), ..Conditions::default() };
    let deliveries = stream(&mut link_to_client(conditions), 5, 1500, Duration::ZERO);
    let times: Vec<_> = deliveries.iter().map(|delivery| delivery.at).collect();
    assert_eq!(times, [4, 4, 8, 13, 14].map(at_ms));
}

#[test]
fn lost_datagrams_are_dropped_once_whatever_the_queue_does_with_their_place() {
    let loss = vec![LossRule::random(likely(0.5))];
    let discipline = Discipline::CoDel(CoDel::default());
    let conditions = Conditions { rate: Some(RATE), discipline, loss, ..Conditions::default() };
    let mut link = talkative(conditions);
    let mut lost = 0;
    for flow in 0..400 {
        let outcome = link.submit(at_ms(0), Way::ToClient, datagram(flow, 1250));
        lost += usize::from(!outcome.has_entered());
    }
    let delivered = drain(&mut link).len();
    let drops = drops(&mut link).len();
    assert!(drops > 0);
    assert_eq!(lost + delivered + drops, 400);
    assert_eq!(link.counters().to_client.in_pipe, 0);
}

#[test]
fn buffers_of_dropped_datagrams_are_recycled() {
    let loss =
        vec![LossRule { model: LossModel::List { numbers: vec![1] }, window: Window::Always }];
    let mut link = link_to_client(Conditions { loss, ..Conditions::default() });
    let payload = vec![1; 1200];
    let (place, capacity) = (payload.as_ptr(), payload.capacity());
    link.submit(at_ms(0), Way::ToClient, Datagram { payload, ..datagram(0, 0) });
    let buffer = link.buffer();
    assert_eq!((buffer.as_ptr(), buffer.len(), buffer.capacity()), (place, 0, capacity));
    assert_eq!(link.buffer().capacity(), 0);
    link.recycle(buffer);
    let again = link.buffer();
    assert_eq!(again.as_ptr(), place);
}

#[test]
fn drops_are_kept_only_if_configured() {
    let host = Host {
        service: ms(1),
        buffer: QueueLimit { packets: Some(0), bytes: None },
        ..Host::default()
    };
    let conditions = Conditions { host: Some(host), ..Conditions::default() };
    let mut link = link_to_client(conditions.clone());
    stream(&mut link, 3, 10, Duration::ZERO);
    assert_eq!(link.counters().to_client.dropped_socket_buffer, 2);
    assert_eq!(link.next_drop(), None);
    let mut link = talkative(conditions);
    stream(&mut link, 3, 10, Duration::ZERO);
    let reasons: Vec<_> = drops(&mut link).iter().map(|one| (one.number, one.reason)).collect();
    assert_eq!(reasons, [(1, DropReason::SocketBuffer), (2, DropReason::SocketBuffer)]);
}
