use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clearway::TransportConfig;
use clearway::qlog::{QlogDirectory, Sampled, TraceOptions};

use crate::support::{Pair, code, run};

/// A folder that is removed when this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn one_connection_in_two_has_a_log() {
    run(async {
        let name = format!("clearway-qlog-sampled-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let logs = QlogDirectory::new(&folder.0, TraceOptions::default()).unwrap();
        let sampled = Sampled::new(logs.clone(), NonZeroUsize::new(2).unwrap());
        let pair =
            Pair::with(TransportConfig::default(), |server| server.observer(Arc::new(sampled)));
        for number in 0..5 {
            let (client, server) = pair.connect().await;
            client.close(code(number), b"");
            server.closed().await;
        }
        pair.server.wait_idle().await;
        assert!(logs.finish(Duration::from_secs(10)).disk.is_complete);
        let files = fs::read_dir(&folder.0).unwrap();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        let mut codes: Vec<_> = texts
            .map(|text| {
                assert!(text.contains("quic:connection_started"), "{text}");
                let closes = (0..5).filter(|code| {
                    text.contains(&format!(
                        "\"application_error\":\"unknown\",\"error_code\":{code}"
                    ))
                });
                closes.collect::<Vec<u32>>()
            })
            .collect();
        codes.sort();
        assert_eq!(codes, [[0], [2], [4]]);
    });
}
