use std::future::{pending, ready};

use super::super::progress::Bars;
use super::*;

/// A download that receives nothing for too long fails, and reports its progress.
#[tokio::test]
async fn a_stalled_download_ends() {
    let mut progress = Bars::new(true).start("file");
    let stall = Stall { limit: Duration::from_millis(10), url: "URL" };
    assert_eq!(stall.within(&progress, ready(7)).await, Ok(7));
    let why = stall.within(&progress, pending::<()>()).await.unwrap_err().to_string();
    assert!(
        why.starts_with(
            "URL: the server is reachable, but has sent no part of the response for 10ms"
        ),
        "{why}"
    );
    assert!(why.contains("no part of the response was received"), "{why}");
    assert!(why.contains("--stall-timeout"), "{why}");
    progress.expect(Some(2_000_000));
    progress.add(1_000_000);
    let why = stall.within(&progress, pending::<()>()).await.unwrap_err().to_string();
    assert!(why.contains("1.0 MB of 2.0 MB were received"), "{why}");
}

/// Without a limit, a download may stall for longer than any short limit.
#[tokio::test]
async fn without_a_limit_a_download_may_stall() {
    let progress = Bars::new(true).start("file");
    let stall = Stall { limit: Duration::ZERO, url: "URL" };
    let later = tokio::time::sleep(Duration::from_millis(5));
    assert_eq!(stall.within(&progress, later).await, Ok(()));
}
