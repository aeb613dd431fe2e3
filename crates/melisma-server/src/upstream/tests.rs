use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::stand_in::{Ending, Script, StandIn};
use super::*;

/// Of `localhost`, trusted by nobody else than these tests.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBXjCCAQSgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLyiM3BFThvhCe6y
VKZjBVtomQhPQvh0d1RZvFmiO/EBL0CE+zN8EiDNBpYc1OpYvC1O+cup+ic3NGXb
VSvJdaSjRTBDMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAMBgNVHRMBAf8EAjAAMB0G
A1UdDgQWBBTPwQww1whVYhANFLGSjzh831RDbTAKBggqhkjOPQQDAgNIADBFAiBs
+PwG/zHqoY9t1xZhKuCWFFEMENL7Y+hR4V8150zZfgIhANtu8GSHzYsTlfJScOtR
bKiTi7SLNjHi2iHLJcKSUU98
-----END CERTIFICATE-----";
const PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIOHABrofme0vSZKW
meht5AQigaSqXiwwZM4VdfEmv0ShRANCAAS8ojNwRU4b4QnuslSmYwVbaJkIT0L4
dHdUWbxZojvxAS9AhPszfBIgzQaWHNTqWLwtTvnLqfonNzRl21UryXWk
-----END PRIVATE KEY-----";
const VARS: PromptVars<'_> = PromptVars { text: "Hi.", voice: "tara", instructions: "softly" };

fn settings(url: &str) -> Settings {
    Settings::new(url, &Config::default()).unwrap()
}

fn chat(url: &str) -> Settings {
    let mut config = Config::default();
    config.api.value = Api::Chat;
    Settings::new(url, &config).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// All texts of one piece, or the code of the failure.
async fn heard(upstream: Upstream) -> std::result::Result<String, &'static str> {
    counted(upstream).await.map(|(heard, _)| heard)
}

/// All texts of one piece and the tokens of its prompt, or the code of the failure.
async fn counted(upstream: Upstream) -> std::result::Result<(String, u64), &'static str> {
    let mut completions = Arc::new(upstream).complete(&["Hi.".to_owned()], VARS);
    let (mut heard, mut n_prompt) = (String::new(), 0);
    while let Some(said) = completions.next().await.map_err(|failure| failure.code())? {
        match said {
            CompletionEvent::Text(text) => heard += &text,
            CompletionEvent::End { prompt_tokens } => n_prompt += prompt_tokens,
        }
    }
    Ok((heard, n_prompt))
}

/// What is heard of an upstream that sends `events` and closes the connection.
fn heard_of(events: &[&str]) -> std::result::Result<(String, u64), &'static str> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let bytes = events.iter().fold(head.to_owned(), |bytes, event| bytes + "data: " + event + "\n\n").into_bytes();
    let stand_in = StandIn::start(move |_| Script::Raw(bytes.clone())).unwrap();
    block_on(counted(Upstream::new(settings(&stand_in.url())).unwrap()))
}

const FIRST: &str = r#"{"choices":[{"text":"one"}]}"#;
const STOP: &str = r#"{"choices":[{"text":" two","finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9}}"#;
const MORE: &str = r#"{"choices":[{"text":" three"}]}"#;

#[test]
fn a_stop_is_remembered_until_the_connection_closes() {
    assert_eq!(heard_of(&[FIRST, STOP, USAGE]), Ok(("one two".to_owned(), 9)));
    assert_eq!(heard_of(&[FIRST, USAGE]), Err("upstream_broken"));
}

#[test]
fn nothing_behind_a_stop_is_spoken() {
    let length = r#"{"choices":[{"text":" four","finish_reason":"length"}]}"#;
    assert_eq!(heard_of(&[FIRST, STOP, MORE, USAGE, length, "[DONE]"]), Ok(("one two".to_owned(), 9)));
    assert_eq!(heard_of(&[FIRST, STOP, MORE]), Ok(("one two".to_owned(), 0)));
    let [text, split] = ["a<custom_token_2>b", "a<custom_to"].map(|text| json!({"choices": [{"text": text}]}));
    assert_eq!(heard_of(&[&text.to_string(), MORE, "[DONE]"]), Ok(("a".to_owned(), 0)));
    let rest = json!({"choices": [{"text": "ken_2>b"}]}).to_string();
    assert_eq!(heard_of(&[&split.to_string(), &rest, MORE]), Ok(("a".to_owned(), 0)));
}

#[test]
fn an_upstream_that_never_ends_after_its_stop_is_left() {
    let texts = vec!["a".to_owned(), "<custom_token_2>".to_owned(), "b".to_owned()];
    let stand_in = StandIn::start(move |_| Script::Stream {
        texts: texts.clone(),
        pace: Duration::from_millis(5),
        ending: Ending::Again,
    });
    let stand_in = stand_in.unwrap();
    assert_eq!(block_on(heard(Upstream::new(settings(&stand_in.url())).unwrap())).unwrap(), "a");
}

#[test]
fn requests_have_the_shape_of_each_api() {
    let body = |settings| -> Value { serde_json::from_str(&Upstream::new(settings).unwrap().body(VARS)).unwrap() };
    let completions = settings("http://m");
    let prompt = completions.template.prompt(VARS);
    let expected = json!({"prompt": prompt, "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 8192, "stop": ["<custom_token_2>"], "temperature": 0.6, "top_p": 0.9,
        "repetition_penalty": 1.1, "repeat_penalty": 1.1});
    assert_eq!(body(completions), expected);
    let mut chat = chat("http://m");
    chat.model = Some("orpheus".to_owned());
    chat.stop.clear();
    chat.fields.retain(|name, _| name == "temperature");
    chat.fields.insert("stream".to_owned(), json!(false));
    let messages = json!([{"role": "system", "content": "softly"}, {"role": "user", "content": "tara: Hi."}]);
    let expected = json!({"messages": messages, "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 8192, "model": "orpheus", "temperature": 0.6});
    assert_eq!(body(chat), expected);
}

#[test]
fn the_configuration_is_obeyed() {
    let mut config = Config::default();
    let orpheus = Settings::new("http://m", &config).unwrap();
    assert_eq!(orpheus.voices, ["tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe"]);
    config.voices.value = "ann, bo".to_owned();
    config.request.value = r#"{"seed": 4}"#.to_owned();
    config.template.value = "{voice}|{text}".to_owned();
    config.max_tokens.value = 70;
    let own = Settings::new("http://m", &config).unwrap();
    assert_eq!((&own.voices[..], own.limits.tokens), (&["ann".to_owned(), "bo".to_owned()][..], 70));
    assert_eq!((Value::Object(own.fields), own.template.prompt(VARS)), (json!({"seed": 4}), "tara|Hi.".to_owned()));
    config.request.value = "[]".to_owned();
    assert!(Settings::new("http://m", &config).is_err());
}

#[test]
fn settings_are_checked() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings("http://m");
        change(&mut settings);
        Upstream::new(settings)
    };
    assert!(with(|_| {}).is_ok());
    assert!(with(|settings| settings.url = "m".to_owned()).is_err());
    assert!(with(|settings| settings.key = Some("a\nb".to_owned())).is_err());
    assert!(with(|settings| settings.key = Some(String::new())).is_err());
    assert!(with(|settings| settings.voices.clear()).is_err());
    assert!(with(|settings| settings.voices.push("<|x|>".to_owned())).is_err());
}

#[test]
fn the_key_of_the_upstream_is_sent_and_not_shown() {
    let stand_in = StandIn::start(|_| Script::of(vec!["a".to_owned(), "b".to_owned()])).unwrap();
    let mut settings = chat(&stand_in.url());
    settings.key = Some("sesame".to_owned());
    let upstream = Upstream::new(settings).unwrap();
    assert!(!format!("{upstream:?}").contains("sesame"));
    assert_eq!(block_on(heard(upstream)).unwrap(), "ab");
    let asked = stand_in.asked();
    assert!(asked[0].head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", asked[0].head);
    assert!(asked[0].head.contains("authorization: Bearer sesame"), "{}", asked[0].head);
}

#[test]
fn tls_is_spoken_with_those_who_are_trusted() {
    block_on(async {
        let address = secure_server().await;
        let secure = |roots| {
            let mut upstream = Upstream::new(settings("http://m")).unwrap();
            upstream.address = Address::parse(&format!("https://localhost:{}", address.port())).unwrap();
            upstream.tls = Some(tls::trusting(roots).unwrap());
            upstream
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()).unwrap();
        assert_eq!(heard(secure(roots.clone())).await.unwrap(), "tls");
        assert_eq!(heard(secure(RootCertStore::empty())).await, Err("upstream_tls"));
        let mut other_name = secure(roots.clone());
        other_name.address = Address::parse(&format!("https://127.0.0.1:{}", address.port())).unwrap();
        assert_eq!(heard(other_name).await, Err("upstream_tls"));
        let plain = StandIn::start(|_| Script::of(Vec::new())).unwrap();
        let mut not_tls = secure(roots);
        not_tls.address = Address::parse(&plain.url().replace("http", "https")).unwrap();
        assert_eq!(heard(not_tls).await, Err("upstream_tls"));
    });
}

/// Answers every request with one event, over TLS.
async fn secure_server() -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(PRIVATE_KEY.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            // A client that trusts nobody leaves here.
            let Ok(mut secure) = acceptor.accept(socket).await else { continue };
            let _ = secure.read(&mut [0; 4096]).await;
            let event = "data: {\"choices\":[{\"text\":\"tls\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = secure.write_all(format!("{head}{event}").as_bytes()).await;
            let _ = secure.shutdown().await;
        }
    });
    address
}

#[test]
fn the_limits_are_those_of_the_protocol() {
    let Limits { line_bytes, tokens, frameless_bytes, connect, first, idle, total, repeat_s } = Limits::default();
    assert_eq!([connect, first, idle, total], [5, 30, 10, 30 * 60].map(Duration::from_secs));
    assert_eq!((line_bytes, tokens, frameless_bytes, repeat_s), (64 << 10, 8192, 16 << 10, 5.0));
}
