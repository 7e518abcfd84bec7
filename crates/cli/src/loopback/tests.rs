use super::is_this_machine;

#[test]
fn names_of_the_web_are_refused() {
    for host in ["localhost", "LOCALHOST:4480", "127.0.0.1:80", "[::1]:4480", "127.0.0.2"] {
        assert!(is_this_machine(host), "{host}");
    }
    for host in ["example.org", "localhost.example.org:80", "127.0.0.1.example.org", "", "a b"] {
        assert!(!is_this_machine(host), "{host}");
    }
}
