//! Requests that wait for a free stream.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use melisma_server::{Guard, Limits};
use serde_json::Value;

use crate::client::{Answer, Fixture, PATIENCE, codes, read_head, request, tokens, until};

/// A server for one stream, whose queue is `queue` long.
fn server(queue: Duration) -> Fixture {
    Fixture::new(1, Guard::default(), Limits { queue, ..Limits::default() })
}

fn queue(server: &Fixture) -> Value {
    server.get("/v1/status").json()["queue"].clone()
}

/// Sends a request for decoding, and waits until it is the `n`th in the queue.
fn wait(server: &Fixture, n: u64) -> TcpStream {
    let mut stream = server.connect();
    let text = tokens(&codes(3, 6));
    stream.write_all(&request("POST", "/v1/decode", &[("content-type", "text/plain")], text.as_bytes())).unwrap();
    until("the request waits", || queue(server)["waiting"] == n);
    stream
}

#[test]
fn requests_wait_for_a_free_stream_in_order() {
    let server = server(PATIENCE);
    let held = server.socket("/v1/decode", &[]).ok().unwrap();
    let (mut first, mut second) = (wait(&server, 1), wait(&server, 2));
    let metrics = || String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics().contains("melisma_queue_waiting 2\n"), "{}", metrics());
    assert!(metrics().contains("\nmelisma_load 1\n"), "{}", metrics());
    drop(held);
    assert_eq!(Answer::read(&mut first).status, 200);
    assert_eq!(Answer::read(&mut second).status, 200);
    let queue = queue(&server);
    assert_eq!((&queue["waiting"], &queue["waited"]), (&0.into(), &2.into()), "{queue}");
    assert_eq!(queue["limit_seconds"], PATIENCE.as_secs_f64());
    let metrics = metrics();
    for line in ["melisma_queue_waiting 0\n", "melisma_queue_waited_total 2\n", "melisma_queue_wait_seconds_count 2\n"]
    {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[test]
fn a_socket_waits_before_its_upgrade() {
    let server = server(PATIENCE);
    let held = server.socket("/v1/decode", &[]).ok().unwrap();
    let mut waiting = server.connect();
    let upgrade = "GET /v1/decode HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    waiting.write_all(upgrade.as_bytes()).unwrap();
    until("the socket waits", || queue(&server)["waiting"] == 1);
    drop(held);
    let (head, _) = read_head(&mut waiting);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
}

#[test]
fn a_client_that_leaves_is_no_longer_in_the_queue() {
    let server = server(PATIENCE);
    let held = server.socket("/v1/decode", &[]).ok().unwrap();
    let first = wait(&server, 1);
    let mut second = wait(&server, 2);
    drop(first);
    until("the first has left", || queue(&server)["waiting"] == 1);
    assert_eq!(queue(&server)["given_up"]["client_left"], 1);
    drop(held);
    assert_eq!(Answer::read(&mut second).status, 200);
}

#[test]
fn a_wait_that_would_be_too_long_is_refused_at_once() {
    let limit = Duration::from_millis(10);
    let server = server(limit);
    let _held = server.socket("/v1/decode", &[]).ok().unwrap();
    // A stream that has been there for some time is expected to stay as long again.
    until("the wait is too long", || queue(&server)["expected_seconds"].as_f64() > Some(limit.as_secs_f64()));
    for answer in [server.post("/v1/decode", b"x"), server.socket("/v1/decode", &[]).err().unwrap()] {
        assert_eq!((answer.status, answer.code().as_str()), (503, "full"));
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains("1 of 1 streams are in use; the wait for one is about"), "{message}");
        assert!(answer.headers.contains_key("retry-after"));
    }
    // A plain request learns why a WebSocket would be refused.
    assert_eq!(server.get("/v1/decode").code(), "full");
    let queue = queue(&server);
    assert_eq!((&queue["given_up"]["refused"], &queue["waiting"]), (&2.into(), &0.into()), "{queue}");
}

#[test]
fn a_wait_ends_with_the_queue() {
    let server = server(Duration::from_millis(300));
    let _held = server.socket("/v1/decode", &[]).ok().unwrap();
    let answer = server.post("/v1/decode", b"x");
    assert_eq!((answer.status, answer.code().as_str()), (503, "full"));
    // On a machine that stops for a while, the wait is too long from the beginning.
    let given_up = queue(&server)["given_up"].clone();
    assert_eq!(given_up["timeout"].as_u64().unwrap_or(0) + given_up["refused"].as_u64().unwrap_or(0), 1, "{given_up}");
    assert_eq!(server.get("/v1/status").json()["refused"], 1);
}

#[test]
fn nobody_waits_in_a_server_that_drains() {
    let server = server(PATIENCE);
    let held = server.socket("/v1/decode", &[]).ok().unwrap();
    let mut waiting = wait(&server, 1);
    server.drain();
    let answer = Answer::read(&mut waiting);
    assert_eq!((answer.status, answer.code().as_str()), (503, "draining"));
    drop(held);
    server.join().unwrap();
}
