//! The end of a connection whose client is still sending.
//!
//! A system that closes a socket with unread bytes, or gets bytes for a closed one, sends a reset, and a
//! reset takes from the client what it has not read yet: the answer. So the server ends its half, which
//! the client sees behind the answer, and then reads and discards until the client is done.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::time::timeout;

use super::socket_state::SocketState;

/// How long it discards, in all and without a byte, and how much.
const TIME: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(2);
const MAX_BYTES: u64 = 256 << 20;

/// Discards what comes until the client is done, once for each connection. The server's half has ended.
pub async fn linger(state: &SocketState) {
    if state.has_lingered() {
        return;
    }
    let mut bytes = vec![0; 16 << 10];
    let mut left = MAX_BYTES;
    let discarding = async {
        state.gate().discard(&[]);
        loop {
            match state.socket().try_read(&mut bytes) {
                Ok(n) if n > 0 && n as u64 <= left => {
                    left -= n as u64;
                    state.gate().discard(&bytes[..n]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let is_over = state.gate().is_between();
                    if is_over || timeout(SILENCE, state.socket().readable()).await.is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    };
    // Later bytes are ignored.
    let _ = timeout(TIME, discarding).await;
}
