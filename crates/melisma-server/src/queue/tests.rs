//! Order, leaving and refusals.

use std::task::{Context, Poll, Waker};

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn slot(entry: Entry) -> Slot {
    match entry {
        Entry::Slot(slot) => slot,
        other => panic!("no slot: {other:?}"),
    }
}

fn waiting(entry: Entry) -> Waiting {
    match entry {
        Entry::Waiting(waiting) => waiting,
        other => panic!("not waiting: {other:?}"),
    }
}

/// The slot, if it is there by now.
fn poll(waiting: &mut Waiting) -> Option<Slot> {
    match std::pin::pin!(waiting.slot()).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(slot) => slot,
        Poll::Pending => None,
    }
}

#[test]
fn the_load_is_one_while_a_request_waits() {
    let queue = SlotQueue::new(2);
    assert_eq!(queue.load(), 0.0);
    let first = slot(queue.enter(LONG));
    assert_eq!(queue.load(), 0.5);
    let _second = slot(queue.enter(LONG));
    assert_eq!(queue.load(), 1.0);
    let waiting = waiting(queue.enter(LONG));
    queue.set_limit(1);
    drop(first);
    assert_eq!((queue.load(), queue.waiting()), (1.0, 1));
    queue.set_limit(4);
    drop(waiting);
    assert_eq!(queue.load(), 0.25);
}

#[test]
fn slots_come_back() {
    let queue = SlotQueue::new(2);
    let first = queue.try_acquire();
    let second = queue.try_acquire();
    assert!(first.is_some() && second.is_some());
    assert!(queue.try_acquire().is_none());
    assert_eq!((queue.in_use(), queue.refused()), (2, 1));
    drop(first);
    assert!(queue.try_acquire().is_some());
}

#[test]
fn requests_are_served_in_order_of_arrival() {
    let queue = SlotQueue::new(1);
    let held = slot(queue.enter(LONG));
    let mut queued: Vec<Waiting> = (0..3).map(|_| waiting(queue.enter(LONG))).collect();
    assert_eq!(queue.waiting(), 3);
    assert!(queued.iter_mut().all(|one| poll(one).is_none()));
    let mut held = Some(held);
    for at in 0..3 {
        drop(held.take());
        assert!(queued[at + 1..].iter_mut().all(|one| poll(one).is_none()), "one behind {at} overtook it");
        held = poll(&mut queued[at]);
        assert!(held.is_some(), "{at}");
        assert_eq!((queue.in_use(), queue.waiting()), (1, 2 - at));
    }
}

#[test]
fn a_changed_limit_takes_effect_at_once() {
    let queue = SlotQueue::new(1);
    let first = slot(queue.enter(LONG));
    let mut second = waiting(queue.enter(LONG));
    queue.set_limit(2);
    let second = poll(&mut second).unwrap();
    queue.set_limit(1);
    drop(first);
    assert!(queue.try_acquire().is_none(), "one is still in use");
    drop(second);
    assert!(queue.try_acquire().is_some());
}

#[test]
fn nobody_overtakes_those_who_wait() {
    let queue = SlotQueue::new(1);
    let held = slot(queue.enter(LONG));
    let mut first = waiting(queue.enter(LONG));
    drop(held);
    // The slot is the waiting request's, also before it has looked.
    assert!(queue.try_acquire().is_none());
    assert!(poll(&mut first).is_some());
}

#[test]
fn a_request_that_leaves_makes_room_for_the_next() {
    let queue = SlotQueue::new(1);
    let held = slot(queue.enter(LONG));
    let (first, second) = (waiting(queue.enter(LONG)), waiting(queue.enter(LONG)));
    let mut third = waiting(queue.enter(LONG));
    drop(first);
    assert_eq!(queue.waiting(), 2);
    drop(held);
    // The second has its slot but does not take it.
    assert!(poll(&mut third).is_none());
    drop(second);
    assert!(poll(&mut third).is_some());
    assert_eq!((queue.in_use(), queue.waiting()), (0, 0));
}

#[test]
fn a_wait_that_is_too_long_is_refused_at_once() {
    let queue = SlotQueue::new(1);
    let _held = slot(queue.enter(LONG));
    assert!(matches!(queue.enter(Duration::ZERO), Entry::Refused { .. }), "no queue");
    while queue.forecast() < Duration::from_millis(1) {
        std::thread::yield_now();
    }
    assert!(matches!(queue.enter(Duration::from_nanos(1)), Entry::Refused { wait } if !wait.is_zero()));
    assert_eq!((queue.waiting(), queue.refused()), (0, 2));
}
