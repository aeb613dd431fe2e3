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
    let own = [
        "127.0.0.1:8431",
        "127.0.0.1",
        "localhost:65535",
        "localhost:",
        "LOCALHOST",
        "audio.example:80",
        "proxy.example:443",
    ];
    for host in own {
        assert_eq!(check(&guard, &[("host", host)]), Ok(Caller::Own), "{host}");
    }
    let foreign = [
        "evil.example",
        "proxy.example:80",
        "127.0.0.2",
        "localhost.evil.example",
        "a@localhost",
        "[localhost]",
        "[127.0.0.1]",
        "[127.0.0.1",
        "localhost:65536",
        "localhost:99999999999",
        "audio.example:65536",
        "[::ffff:127.0.0.2]",
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
    let failure = checked.unwrap_err();
    assert_eq!(failure.status, 403);
    assert_eq!(failure.message(), "unknown host name `evil.example`: the server must allow it");
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
fn an_address_of_ipv6_is_in_brackets() {
    let check = |host: &str, local: &str| {
        let checked =
            Guard::default().check(&Uri::from_static("/"), &headers(&[("host", host)]), local.parse().unwrap());
        checked.map_err(|failure| failure.status.as_u16())
    };
    assert_eq!(check("[::1]:8431", "[::1]:8431"), Ok(Caller::Own));
    assert_eq!(check("[::1]", "[::1]:8431"), Ok(Caller::Own));
    assert_eq!(check("[::2]", "[::1]:8431"), Err(403));
    assert_eq!(check("127.0.0.1", "[::ffff:127.0.0.1]:8431"), Ok(Caller::Own));
    assert_eq!(check("[::1]:70000", "[::1]:8431"), Err(403));
}

#[test]
fn a_page_of_another_site_may_only_link_to_the_page() {
    let guard = Guard { allow_origins: vec!["https://app.example".into()], ..Guard::default() };
    let check = |path: &'static str, pairs: &[(&'static str, &str)]| {
        let pairs = [&[("host", "localhost:8431")], pairs].concat();
        let checked = guard.check(&Uri::from_static(path), &headers(&pairs), local());
        checked.map_err(|failure| failure.status.as_u16())
    };
    let (mode, what) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
    for site in ["cross-site", "same-site"] {
        let site = ("sec-fetch-site", site);
        for path in ["/", "/health", "/v1/synth.wav", "/v1/status", "/page/app.js"] {
            for mode in ["no-cors", "cors", "websocket", "same-origin"] {
                assert_eq!(check(path, &[site, ("sec-fetch-mode", mode)]), Err(403), "{path} {mode}");
            }
            assert_eq!(check(path, &[site]), Err(403), "{path}");
            assert_eq!(check(path, &[site, ("origin", "http://localhost:8431")]), Err(403), "{path}");
            let listed = check(path, &[site, ("sec-fetch-mode", "cors"), ("origin", "https://app.example")]);
            assert_eq!(listed, Ok(Caller::AllowedPage), "{path}");
            let expected = if path == "/" { Ok(Caller::Own) } else { Err(403) };
            assert_eq!(check(path, &[site, mode, what]), expected, "{path}");
            assert_eq!(check(path, &[site, mode, ("sec-fetch-dest", "iframe")]), Err(403), "{path}");
        }
        assert_eq!(check("/", &[site, site, mode, what]), Err(400));
    }
    for site in ["none", "same-origin"] {
        assert_eq!(check("/v1/synth.wav", &[("sec-fetch-site", site), mode]), Ok(Caller::Own), "{site}");
    }
}

#[test]
fn a_key_comes_as_a_header_or_as_a_subprotocol() {
    let guard = Guard { keys: Keyring::of_key("a", "s3cret?>").unwrap(), ..Guard::default() };
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
    assert!(Guard::default().check_key(&HeaderMap::new()).unwrap().is_none());
}
