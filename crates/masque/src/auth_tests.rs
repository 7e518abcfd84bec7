use proptest::prelude::*;

use super::*;

const FILE: &str = "# clients\n\nbasic alice correct horse\nbasic bob x:y\n  bearer s3cret\n\
    bearer t0ken farm\ncertificate host.example\n";

fn credentials() -> Credentials {
    Credentials::parse(FILE).unwrap()
}

fn check(name: HeaderName, value: &str, authority: Authority) -> Result<String, AuthError> {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_str(value).unwrap());
    let client = credentials().check(&headers, authority, None)?;
    Ok(format!("{} {:?}", client.name, client.method))
}

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

#[test]
fn clients_are_authenticated_by_name_and_password_or_token() {
    for (value, client) in [
        (basic("alice:correct horse"), Ok("alice Basic")),
        (basic("bob:x:y"), Ok("bob Basic")),
        ("basic  YWxpY2U6Y29ycmVjdCBob3JzZQ==".to_owned(), Ok("alice Basic")),
        ("Bearer s3cret".to_owned(), Ok("bearer-5 Bearer")),
        ("BEARER t0ken".to_owned(), Ok("farm Bearer")),
        (basic("alice:correct hors"), Err(AuthError::Rejected)),
        (basic("alice:correct horses"), Err(AuthError::Rejected)),
        (basic("eve:correct horse"), Err(AuthError::Rejected)),
        (basic("alice"), Err(AuthError::Malformed)),
        ("Basic !".to_owned(), Err(AuthError::Malformed)),
        ("Bearer s3cre".to_owned(), Err(AuthError::Rejected)),
        ("Bearer".to_owned(), Err(AuthError::Malformed)),
        ("Digest x".to_owned(), Err(AuthError::UnsupportedScheme)),
        (format!("Bearer {}", "a".repeat(MAX_FIELD)), Err(AuthError::Malformed)),
    ] {
        for (name, authority) in [
            (AUTHORIZATION, Authority::Origin),
            (PROXY_AUTHORIZATION, Authority::Origin),
            (PROXY_AUTHORIZATION, Authority::Proxy),
        ] {
            let client = client.map(str::to_owned);
            assert_eq!(check(name, &value, authority), client, "{value}");
        }
        let result = check(AUTHORIZATION, &value, Authority::Proxy);
        assert_eq!(result, Err(AuthError::Missing));
    }
    let mut headers = HeaderMap::new();
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"));
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer t0ken"));
    let result = credentials().check(&headers, Authority::Origin, None);
    assert_eq!(result, Err(AuthError::Malformed));
}

#[test]
fn a_certificate_is_enough() {
    let check = |name| credentials().check(&HeaderMap::new(), Authority::Origin, Some(name));
    let client = check("host.example").unwrap();
    assert_eq!((&*client.name, client.method), ("host.example", Method::Certificate));
    assert_eq!(check("other.example"), Err(AuthError::Missing));
}

#[test]
fn a_challenge_lists_the_schemes_that_have_credentials() {
    let challenge = credentials().challenge(Authority::Proxy);
    assert_eq!((challenge.status.as_u16(), challenge.name), (407, PROXY_AUTHENTICATE));
    assert_eq!(challenge.values.len(), 2);
    let tokens = Credentials::parse("bearer a").unwrap().challenge(Authority::Origin);
    assert_eq!((tokens.status.as_u16(), tokens.name), (401, WWW_AUTHENTICATE));
    assert_eq!(tokens.values, ["Bearer realm=\"proxy\""]);
    assert!(Credentials::default().is_empty() && !credentials().is_empty());
}

#[test]
fn secrets_are_not_printed() {
    let text = format!("{:?}", credentials());
    assert_eq!(text, "Credentials { passwords: 2, tokens: 2, certificates: 1 }");
    let error = Credentials::parse("secret password").unwrap_err().to_string();
    assert!(!error.contains("password"));
}

#[test]
fn invalid_lines_are_named() {
    for (text, line, problem) in [
        ("\nplain a b", 2, CredentialsProblem::UnknownKind),
        ("basic", 1, CredentialsProblem::Name),
        ("basic a:b c", 1, CredentialsProblem::Name),
        ("basic a", 1, CredentialsProblem::NoSecret),
        ("bearer", 1, CredentialsProblem::NoSecret),
        ("bearer a b c", 1, CredentialsProblem::Excess),
        ("certificate", 1, CredentialsProblem::Name),
        ("certificate a b", 1, CredentialsProblem::Excess),
        ("basic a b\nbasic a c", 2, CredentialsProblem::Duplicate),
        ("bearer a\nbearer a b", 2, CredentialsProblem::Duplicate),
        ("certificate a\n\ncertificate a", 3, CredentialsProblem::Duplicate),
    ] {
        let error = Credentials::parse(text).unwrap_err();
        assert_eq!((error.line, error.problem), (line, problem), "{text}");
    }
}

proptest! {
    #[test]
    fn anything_is_parsed_or_refused(text in "((basic|bearer|certificate) ?)?\\PC{0,20}", value in "[ -~]{0,30}") {
        _ = Credentials::parse(&text);
        let result = check(AUTHORIZATION, &format!("Basic {value}"), Authority::Origin);
        prop_assert!(result.is_err());
    }
}
