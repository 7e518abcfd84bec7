use super::*;

fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

#[test]
fn ids_are_found_until_they_are_removed_by_their_owner() {
    let mut routes = Routes::new();
    routes.add(id(1), 7);
    routes.add(id(2), 8);
    assert_eq!(routes.find(&id(1), address(1)), Some(7));
    assert_eq!(routes.find(&id(2), address(1)), Some(8));
    routes.remove(&id(1), 8);
    assert_eq!(routes.find(&id(1), address(2)), Some(7), "not the owner");
    routes.remove(&id(1), 7);
    assert_eq!(routes.find(&id(1), address(1)), None, "not from memory either");
}

/// A client chooses its first Destination Connection ID itself: it identifies the connection only
/// together with the client's address, and never replaces an ID issued by this endpoint.
#[test]
fn a_client_s_choice_counts_from_its_address_only() {
    let mut routes = Routes::new();
    routes.add(id(1), 7);
    routes.add_initial((id(1), address(5)), 9);
    routes.add_initial((id(3), address(5)), 9);
    assert_eq!(routes.find(&id(1), address(5)), Some(7));
    assert_eq!(routes.find(&id(3), address(5)), Some(9));
    assert_eq!(routes.find(&id(3), address(6)), None);
    routes.remove_initial(&(id(3), address(5)), 8);
    assert_eq!(routes.find(&id(3), address(5)), Some(9), "not the owner");
    routes.remove_initial(&(id(3), address(5)), 9);
    assert_eq!(routes.find(&id(3), address(5)), None);
}

#[test]
fn a_reset_is_found_by_address_and_token_until_the_token_changes() {
    let mut routes = Routes::new();
    let (old, new) = ((address(1), [1; 16]), (address(1), [2; 16]));
    routes.replace_reset(None, Some(old), 7);
    assert_eq!(routes.find_reset(&old), Some(7));
    assert_eq!(routes.find_reset(&(address(2), [1; 16])), None);
    routes.replace_reset(Some(old), Some(new), 7);
    assert_eq!((routes.find_reset(&old), routes.find_reset(&new)), (None, Some(7)));
    routes.replace_reset(Some(new), None, 8);
    assert_eq!(routes.find_reset(&new), Some(7), "not the owner");
    routes.replace_reset(Some(new), None, 7);
    assert_eq!(routes.find_reset(&new), None);
}
