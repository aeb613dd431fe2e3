use hyper::header::HeaderValue;

use super::*;

fn local() -> SocketAddr {
    "127.0.0.1:8431".parse().unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    let mut headers = HeaderMap::new();
    pairs.iter().map(pair).for_each(|(name, value)| {
        headers.append(name, value);
    });
    headers
}

fn check(guard: &Guard, pairs: &[(&'static str, &str)]) -> Result<Caller, u16> {
    let checked = guard.check(&Uri::from_static("/"), &headers(pairs), local());
    checked.map_err(|failure| failure.status.as_u16())
}

#[test]
fn only_names_of_this_server_are_answered() {
    let guard = Guard { allow_hosts: vec!["audio.example".into(), "proxy.example:443".into()], ..Guard::default() };
    let own = ["127.0.0.1:8431", "127.0.0.1", "localhost:9000", "LOCALHOST", "audio.example:80", "proxy.example:443"];
    for host in own {
        assert_eq!(check(&guard, &[("host", host)]), Ok(Caller::Own), "{host}");
    }
    let foreign = [
        "evil.example",
        "proxy.example:80",
        "127.0.0.2",
        "localhost.evil.example",
        "a@localhost",
        "[::1]",
        "127.1",
        "0x7f.1",
        "",
        "é",
    ];
    for host in foreign {
        assert_eq!(check(&guard, &[("host", host)]), Err(403), "{host}");
    }
    assert_eq!(check(&guard, &[]), Err(400));
    assert_eq!(check(&guard, &[("host", "localhost"), ("host", "localhost")]), Err(400));
    let absolute = Uri::from_static("http://evil.example/");
    let checked = guard.check(&absolute, &headers(&[("host", "localhost")]), local());
    assert_eq!(checked.unwrap_err().status, 403);
}

#[test]
fn only_own_and_listed_pages_are_answered() {
    let guard = Guard { allow_origins: vec!["https://app.example".into()], ..Guard::default() };
    let check = |origin: &str| check(&guard, &[("host", "localhost:8431"), ("origin", origin)]);
    assert_eq!(check("http://localhost:8431"), Ok(Caller::Own));
    assert_eq!(check("https://app.example"), Ok(Caller::AllowedPage));
    let foreign =
        ["http://localhost:3000", "http://localhost", "https://app.example.evil", "null", "", "file://localhost:8431"];
    for origin in foreign {
        assert_eq!(check(origin), Err(403), "{origin}");
    }
}

#[test]
fn a_key_comes_as_a_header_or_as_a_subprotocol() {
    let guard = Guard { key: Some("s3cret?>".into()), ..Guard::default() };
    let check = |pairs: &[(&'static str, &str)]| guard.check_key(&headers(pairs)).is_ok();
    assert!(check(&[("authorization", "Bearer s3cret?>")]));
    assert!(check(&[("authorization", "bearer s3cret?>")]));
    assert!(check(&[("sec-websocket-protocol", "melisma.v1, melisma.key.czNjcmV0Pz4")]));
    let wrong: &[&[(&str, &str)]] = &[
        &[],
        &[("authorization", "s3cret?>")],
        &[("authorization", "Bearer s3cret?>"), ("authorization", "Bearer s3cret?>")],
        &[("authorization", "Bearer s3cret?")],
        &[("authorization", "Bearer s3cret?>s3cret?>")],
        &[("authorization", "Bearer ")],
        &[("sec-websocket-protocol", "melisma.v1")],
        &[("sec-websocket-protocol", "melisma.key.czNjcmV0Pz4=")],
    ];
    for pairs in wrong {
        assert!(!check(pairs), "{pairs:?}");
    }
    assert!(Guard::default().check_key(&HeaderMap::new()).is_ok());
}
