//! Floods of all kinds of frames that the attacks on individual tables do not send.

use clearway_transport::Side;
use clearway_wire::{Direction, Frame, StreamId, VarInt, frame};

use super::packets::LEDGER;
use super::{Attack, Target};
use crate::scene::{Application, Scene};

const MANY: u64 = 20_000;

pub(super) fn attacks() -> Vec<Attack> {
    let because = "only the largest value is kept, and the records of sent ACKs";
    let on = |victim, name, drive| Attack {
        name,
        target: Target::Connection(victim, Application::Idle),
        drive,
        bound: LEDGER,
        because,
    };
    vec![
        on(Side::Server, "MAX_DATA", max_data),
        on(Side::Server, "MAX_STREAMS", max_streams),
        on(Side::Server, "MAX_STREAM_DATA", max_stream_data),
        on(Side::Server, "the BLOCKED frames", blocked),
        on(Side::Server, "PATH_RESPONSE", path_response),
        on(Side::Client, "NEW_TOKEN", new_token),
        on(Side::Client, "HANDSHAKE_DONE", handshake_done),
        on(Side::Client, "PINGs from a server", ping),
    ]
}

fn varint(value: u64) -> VarInt {
    VarInt::new(value).expect("a small number")
}

fn flood<'a>(scene: &mut Scene, frame: impl Fn(u64) -> Frame<'a>) {
    for number in 0..MANY {
        scene.send(&[frame(number)]);
    }
}

fn max_data(scene: &mut Scene) {
    flood(scene, |number| Frame::MaxData(frame::MaxData { maximum: varint(number << 20) }));
}

fn max_streams(scene: &mut Scene) {
    flood(scene, |number| {
        let direction = Direction::Bidirectional;
        Frame::MaxStreams(frame::MaxStreams { direction, maximum: varint(number) })
    });
}

fn max_stream_data(scene: &mut Scene) {
    flood(scene, |number| {
        let stream_id = StreamId::from_varint(varint(number % 100 * 4));
        Frame::MaxStreamData(frame::MaxStreamData { stream_id, maximum: varint(number << 20) })
    });
}

fn blocked(scene: &mut Scene) {
    flood(scene, |number| {
        let (limit, stream_id) = (varint(number), StreamId::from_varint(varint(number % 100 * 4)));
        let direction = Direction::Bidirectional;
        match number % 3 {
            0 => Frame::DataBlocked(frame::DataBlocked { limit }),
            1 => Frame::StreamDataBlocked(frame::StreamDataBlocked { stream_id, limit }),
            _ => Frame::StreamsBlocked(frame::StreamsBlocked { direction, limit }),
        }
    });
}

fn path_response(scene: &mut Scene) {
    flood(scene, |number| Frame::PathResponse(frame::PathResponse { data: number.to_be_bytes() }));
}

fn new_token(scene: &mut Scene) {
    let token = [7; 1_000];
    flood(scene, |_| Frame::NewToken(frame::NewToken { token: &token }));
}

fn handshake_done(scene: &mut Scene) {
    flood(scene, |_| Frame::HandshakeDone);
}

fn ping(scene: &mut Scene) {
    flood(scene, |_| Frame::Ping);
}
