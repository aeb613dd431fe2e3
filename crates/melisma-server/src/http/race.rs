//! The first of two futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of the two ended first.
#[derive(Debug)]
pub enum First<A, B> {
    /// The first.
    A(A),
    /// The second.
    B(B),
}

/// Runs both until one ends; the other is dropped. The first wins if both are ready.
pub async fn race<A: Future, B: Future>(a: A, b: B) -> First<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(a) => Poll::Ready(First::A(a)),
        Poll::Pending => b.as_mut().poll(cx).map(First::B),
    })
    .await
}
