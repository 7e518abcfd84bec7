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
    // The file was replaced: the new file is sent in full, not a mixture of both.
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
    // The superuser can read every file.
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

/// The response to HEAD has the fields of a GET response without content, and other methods are
/// rejected.
#[tokio::test]
async fn methods_other_than_get() {
    let scratch = Scratch::new("methods");
    let files = Files::new(&scratch.0, false, Store::new(10, 1 << 20)).unwrap();
    fs::write(scratch.0.join("empty"), "").unwrap();
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    let ask = async |method: Method, path: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, "bytes=1-2".parse().unwrap());
        answer(&files, client, &method, &path.parse().unwrap(), &headers).await
    };
    let get = ask(Method::GET, "/a.txt").await;
    assert_eq!((get.response.status(), get.length), (StatusCode::PARTIAL_CONTENT, 2));
    assert_eq!(header(&get, CONTENT_RANGE), "bytes 1-2/10");
    assert!(matches!(get.response.body(), Content::File(_)));
    // Range applies only to GET (RFC 9110 §14.2).
    let head = ask(Method::HEAD, "/a.txt").await;
    assert_eq!((head.response.status(), head.length), (StatusCode::OK, 10));
    assert_eq!(header(&head, CONTENT_LENGTH), "10");
    assert!(matches!(head.response.body(), Content::Body(_)), "its content is not read");
    let refused = ask(Method::POST, "/a.txt").await;
    assert_eq!(refused.response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!((header(&refused, ALLOW), refused.problem), ("GET, HEAD".to_owned(), None));
    let unsatisfiable = ask(Method::GET, "/empty").await;
    assert_eq!(unsatisfiable.response.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(header(&unsatisfiable, CONTENT_RANGE), "bytes */0");
    assert_eq!(misdirected().response.status(), StatusCode::MISDIRECTED_REQUEST);
}
