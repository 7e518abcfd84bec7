//! Tests of the size and the end of responses, as [`http_body::Body`] reports them.

use http::Method;
use http_body::Body as _;

use super::{Body, Face, Pair, get, over_each_face, request, tunnel};
use crate::wakes_tests::world::Scene;

over_each_face! {
    the_size_of_a_response_is_its_content_length
    a_response_to_head_has_ended_with_its_header_section
    a_tunnel_has_no_size
}

fn the_size_of_a_response_is_its_content_length(face: Face) {
    let mut pair = Pair::new(face);
    let pending = pair.client.start(get("/sized")).unwrap();
    let body = pair.get(pending.response()).unwrap().into_body();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(7), false));
    let body = pair.get(async move {
        let mut body = body;
        assert_eq!(body.chunk().await.unwrap().unwrap(), "content");
        assert!(body.chunk().await.is_none());
        body
    });
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
}

/// The content-length of the response is that of a response to GET.
fn a_response_to_head_has_ended_with_its_header_section(face: Face) {
    let mut pair = Pair::new(face);
    let pending = pair.client.start(request(Method::HEAD, "/bare", Body::empty())).unwrap();
    let response = pair.get(pending.response()).unwrap();
    assert_eq!(response.headers()["content-length"], "7");
    let body = response.into_body();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
}

fn a_tunnel_has_no_size(face: Face) {
    let mut pair = Pair::new(face);
    let (sending, pending) = pair.client.open(tunnel()).unwrap();
    let mut open = Some(sending);
    if let Some(sending) = open.take_if(|_| face == Face::Handler) {
        // The handler responds at the end of the request.
        pair.world.spawn(sending.finish());
    }
    let body = pair.get(pending.response()).unwrap().into_body();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (None, false));
    drop(open);
}
