use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use http::header::{IF_NONE_MATCH, IF_RANGE, RANGE};

use super::super::store::Store;
use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("docs")).unwrap();
        let old = SystemTime::now() - Duration::from_secs(100);
        fs::write(folder.join("a.txt"), "0123456789").unwrap();
        fs::File::options()
            .write(true)
            .open(folder.join("a.txt"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        Self(folder)
    }

    async fn ask(&self, memory: u64, path: &str, fields: &[(http::HeaderName, &str)]) -> Answer {
        let files = Files::new(&self.0, false, Store::new(10, memory)).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(name, value.parse().unwrap());
        }
        let client = SocketAddr::from(([127, 0, 0, 1], 1));
        answer(&files, client, &Method::GET, &path.parse().unwrap(), &headers).await
    }

    async fn get(&self, path: &str, fields: &[(http::HeaderName, &str)]) -> Answer {
        self.ask(64 << 20, path, fields).await
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn header(answer: &Answer, name: http::HeaderName) -> String {
    let value = answer.response.headers().get(&name);
    value.unwrap_or_else(|| panic!("{name} is there")).to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_response_has_a_date_and_validators() {
    let scratch = Scratch::new("validators");
    let whole = scratch.get("/a.txt", &[]).await;
    assert_eq!((whole.response.status(), whole.length), (StatusCode::OK, 10));
    let tag = header(&whole, ETAG);
    assert!(tag.starts_with('"'), "{tag}");
    for name in [DATE, LAST_MODIFIED] {
        httpdate::parse_http_date(&header(&whole, name)).unwrap();
    }
    header(&scratch.get("/nothing", &[]).await, DATE);

    let answer = scratch.get("/a.txt", &[(IF_NONE_MATCH, &tag)]).await;
    assert_eq!((answer.response.status(), answer.length), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(header(&answer, ETAG), tag);
    let resumed = [(RANGE, "bytes=4-"), (IF_RANGE, tag.as_str())];
    let answer = scratch.get("/a.txt", &resumed).await;
    assert_eq!((answer.response.status(), answer.length), (StatusCode::PARTIAL_CONTENT, 6));
    // The file was replaced: the new one is sent as a whole, not a mixture of both.
    fs::write(scratch.0.join("a.txt"), "abcdefghij").unwrap();
    let answer = scratch.get("/a.txt", &resumed).await;
    assert_eq!((answer.response.status(), answer.length), (StatusCode::OK, 10));
}

#[tokio::test]
async fn a_redirect_keeps_the_query() {
    let scratch = Scratch::new("query");
    for (path, place) in [("/docs", "/docs/"), ("//docs?a=%20b//c", "/docs/?a=%20b//c")] {
        let answer = scratch.get(path, &[]).await;
        assert_eq!(answer.response.status(), StatusCode::MOVED_PERMANENTLY);
        assert_eq!(header(&answer, LOCATION), place);
    }
}

#[tokio::test]
async fn an_unreadable_file_is_not_reported_as_missing() {
    let scratch = Scratch::new("unreadable");
    let busy = busy("too many open files".to_owned());
    assert_eq!(busy.response.status(), StatusCode::SERVICE_UNAVAILABLE);
    header(&busy, RETRY_AFTER);

    fs::set_permissions(scratch.0.join("a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything.
    if fs::File::open(scratch.0.join("a.txt")).is_err() {
        let answer = scratch.get("/a.txt", &[]).await;
        assert_eq!(answer.response.status(), StatusCode::FORBIDDEN);
        assert!(answer.problem.is_some());
    }
    std::os::unix::fs::symlink("loop", scratch.0.join("loop")).unwrap();
    let answer = scratch.get("/loop", &[]).await;
    assert_eq!(answer.response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(answer.problem.is_some());
}
