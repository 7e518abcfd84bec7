use clearway_http3::{Code, Event, Role};
use clearway_units::Rate;

use super::{Cancel, Order};

#[test]
fn the_server_reads_what_the_client_asks_for() {
    let rate = Rate::from_bytes_per_second(1000);
    let cancelled = Cancel::ALL.map(|cancel| Order::Cancelled { cancel, size: 5, after: 3 });
    let others = [Order::Content(7), Order::Paced { size: 9, rate, chunk: 2 }];
    for order in others.into_iter().chain(cancelled) {
        assert_eq!(Order::parse(&order.path()), Some(order));
    }
    for path in ["", "/", "/x", "/client-stops", "/client-stops/5", "/client-stops/5/x", "/5/x/2"] {
        assert_eq!(Order::parse(path), None, "{path}");
    }
}

/// One way to give a message up explains one frame of the peer's with one code, or one each way, and no other.
#[test]
fn only_what_was_arranged_is_explained() {
    let codes = [Code::REQUEST_CANCELLED, Code::NO_ERROR, Code::INTERNAL_ERROR];
    let explained = |cancel: Cancel| {
        let mut found = Vec::new();
        for (role, code) in [Role::Client, Role::Server].into_iter().zip([codes; 2]) {
            for code in code {
                let (reset, stopped) =
                    (Event::Reset { stream: 0, code }, Event::Stopped { stream: 0, code });
                found.extend(cancel.explains(role, &reset).then_some((role, "reset", code)));
                found.extend(cancel.explains(role, &stopped).then_some((role, "stopped", code)));
            }
        }
        found
    };
    let cancelled = Code::REQUEST_CANCELLED;
    assert_eq!(explained(Cancel::ClientStops), [(Role::Server, "stopped", cancelled)]);
    assert_eq!(
        explained(Cancel::ClientResets),
        [(Role::Server, "reset", cancelled), (Role::Server, "stopped", cancelled)]
    );
    assert_eq!(explained(Cancel::ServerResets), [(Role::Client, "reset", cancelled)]);
    assert_eq!(explained(Cancel::ServerStops), [(Role::Client, "stopped", Code::NO_ERROR)]);
    assert!(!Cancel::ClientStops.explains(Role::Server, &Event::Finished { stream: 0 }));
}
