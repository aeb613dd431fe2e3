//! Loops that the compiler vectorises for each instruction set, cut into tasks for the threads.

use super::Operation;
use crate::device::isa::{Isa, dispatch};
use crate::queue::CpuQueue;

/// Elements per task.
const TASK_LEN: usize = 1 << 15;

pub(super) fn each(queue: &CpuQueue, operation: Operation, y: &mut [f32], x: &[f32]) {
    let isa = queue.cpu().isa;
    queue.run_in_parts(y, TASK_LEN, |first, y| pairs(isa, operation, y, &x[first..first + y.len()]));
}

pub(super) fn all(queue: &CpuQueue, operation: Operation, y: &mut [f32], x: f32) {
    let isa = queue.cpu().isa;
    queue.run_in_parts(y, TASK_LEN, |_, y| with_one(isa, operation, y, x));
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
    Maximum => |y: f32, x: f32| if y >= x || y.is_nan() { y } else { x };
    Minimum => |y: f32, x: f32| if y <= x || y.is_nan() { y } else { x };
}
