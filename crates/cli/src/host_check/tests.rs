use super::is_permitted;

#[test]
fn names_of_the_web_are_refused() {
    for host in ["localhost", "LOCALHOST:4480", "127.0.0.1:80", "[::1]:4480", "192.0.2.7:80"] {
        assert!(is_permitted(host, &[]), "{host}");
    }
    for host in ["example.org", "localhost.example.org:80", "127.0.0.1.example.org", "", "a b"] {
        assert!(!is_permitted(host, &[]), "{host}");
    }
}

#[test]
fn names_that_were_given_are_permitted() {
    let names = ["build.example.org".to_owned()];
    for host in ["build.example.org", "Build.Example.org:4480"] {
        assert!(is_permitted(host, &names), "{host}");
    }
    for host in ["example.org", "a.build.example.org", "build.example.org.", ""] {
        assert!(!is_permitted(host, &names), "{host}");
    }
}
