//! Loops that the compiler turns into vectors of each instruction set, cut into tasks for the threads.

use super::Operation;
use crate::device::isa::{Isa, dispatch};
use crate::queue::CpuQueue;

/// Elements of one task.
const TASK_LEN: usize = 1 << 15;

struct Tasks {
    start: *mut f32,
    len: usize,
}

// SAFETY: `get` gives out disjoint parts.
unsafe impl Sync for Tasks {}

impl Tasks {
    /// # Safety
    /// Each index at most once, while the slice behind `start` is borrowed.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint; see Safety")]
    unsafe fn get(&self, index: usize) -> &mut [f32] {
        let start = (index * TASK_LEN).min(self.len);
        // SAFETY: within the slice, and no other part overlaps.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), TASK_LEN.min(self.len - start)) }
    }
}

fn in_tasks(queue: &CpuQueue, y: &mut [f32], work: impl Fn(usize, &mut [f32]) + Sync) {
    let tasks = Tasks { start: y.as_mut_ptr(), len: y.len() };
    queue.run(y.len().div_ceil(TASK_LEN), |index| {
        // SAFETY: every index is handed out once.
        work(index * TASK_LEN, unsafe { tasks.get(index) });
    });
}

pub(super) fn each(queue: &CpuQueue, operation: Operation, y: &mut [f32], x: &[f32]) {
    let isa = queue.cpu().isa;
    in_tasks(queue, y, |first, y| pairs(isa, operation, y, &x[first..first + y.len()]));
}

pub(super) fn all(queue: &CpuQueue, operation: Operation, y: &mut [f32], x: f32) {
    let isa = queue.cpu().isa;
    in_tasks(queue, y, |_, y| with_one(isa, operation, y, x));
}

macro_rules! loops {
    ($($operation:ident => $value:expr;)+) => {
        fn pairs(isa: Isa, operation: Operation, y: &mut [f32], x: &[f32]) {
            match operation {
                $(Operation::$operation => {
                    #[inline(always)]
                    fn body(y: &mut [f32], x: &[f32]) {
                        y.iter_mut().zip(x).for_each(|(y, &x)| *y = ($value)(*y, x));
                    }
                    dispatch!(isa, body(y: &mut [f32], x: &[f32]))
                })+
            }
        }

        fn with_one(isa: Isa, operation: Operation, y: &mut [f32], x: f32) {
            match operation {
                $(Operation::$operation => {
                    #[inline(always)]
                    fn body(y: &mut [f32], x: f32) {
                        y.iter_mut().for_each(|y| *y = ($value)(*y, x));
                    }
                    dispatch!(isa, body(y: &mut [f32], x: f32))
                })+
            }
        }
    };
}
loops! {
    Add => |y: f32, x: f32| y + x;
    Subtract => |y: f32, x: f32| y - x;
    Multiply => |y: f32, x: f32| y * x;
    Divide => |y: f32, x: f32| y / x;
    Maximum => |y: f32, x: f32| if x > y { x } else { y };
    Minimum => |y: f32, x: f32| if x < y { x } else { y };
}
