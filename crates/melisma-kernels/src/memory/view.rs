//! Typed views, which kernels read and write. A view knows its element type, length and memory
//! space.

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::Range;

use crate::device::cuda::Address;
use crate::{Element, Error, Result};

/// Memory that a kernel reads.
#[derive(Debug, Clone, Copy)]
pub enum View<'a, T> {
    /// Host memory, pageable or pinned.
    Host(&'a [T]),
    /// Device memory.
    Cuda(CudaView<'a, T>),
}

/// Memory that a kernel writes.
#[derive(Debug)]
pub enum ViewMut<'a, T> {
    /// Host memory, pageable or pinned.
    Host(&'a mut [T]),
    /// Device memory.
    Cuda(CudaViewMut<'a, T>),
}

/// `len` elements of device memory, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct CudaView<'a, T> {
    pub(crate) address_dev: Address,
    pub(crate) len: usize,
    owner: PhantomData<&'a [T]>,
}

/// `len` elements of device memory, borrowed for writing.
#[derive(Debug)]
pub struct CudaViewMut<'a, T> {
    pub(crate) address_dev: Address,
    pub(crate) len: usize,
    owner: PhantomData<&'a mut [T]>,
}

/// The methods that both kinds of views share; `mut` marks the writable one.
macro_rules! view {
    ($view:ident, $cuda:ident $(, $mut:tt)?) => {
        impl<T: Element> $cuda<'_, T> {
            pub(crate) fn new(address_dev: Address, len: usize) -> Self {
                Self { address_dev, len, owner: PhantomData }
            }
        }

        impl<'a, T: Element> $view<'a, T> {
            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                match self {
                    Self::Host(host) => host.len(),
                    Self::Cuda(cuda) => cuda.len,
                }
            }

            /// Returns whether it has no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the host slice.
            ///
            /// # Errors
            /// The view is of device memory.
            pub fn host(self) -> Result<&'a $($mut)? [T]> {
                match self {
                    Self::Host(host) => Ok(host),
                    Self::Cuda(_) => Err(wrong_place("host", "device")),
                }
            }

            /// Returns its first `len` elements.
            ///
            /// # Errors
            /// It has fewer.
            pub fn first(self, len: usize) -> Result<Self> {
                self.range(0..len)
            }

            /// Returns the elements `start..end`.
            ///
            /// # Errors
            /// It has fewer than `end`, or `end` is before `start`.
            pub fn range(self, range: Range<usize>) -> Result<Self> {
                check_range(&range, self.len())?;
                Ok(match self {
                    Self::Host(host) => Self::Host(&$($mut)? host[range]),
                    Self::Cuda(cuda) => {
                        let offset = (range.start * size_of::<T>()) as Address;
                        Self::Cuda($cuda::new(cuda.address_dev + offset, range.len()))
                    }
                })
            }

            pub(crate) fn cuda(self) -> Result<$cuda<'a, T>> {
                match self {
                    Self::Cuda(cuda) => Ok(cuda),
                    Self::Host(_) => Err(wrong_place("device", "host")),
                }
            }
        }

        impl<'a, T> From<&'a $($mut)? [T]> for $view<'a, T> {
            fn from(host: &'a $($mut)? [T]) -> Self {
                Self::Host(host)
            }
        }
    };
}

impl<T> CudaView<'_, T> {
    /// Returns the address of its first element in device memory, for other libraries in this
    /// process.
    pub fn address(&self) -> u64 {
        self.address_dev
    }
}

view!(View, CudaView);
view!(ViewMut, CudaViewMut, mut);

fn wrong_place(expected: &str, found: &str) -> Error {
    Error::invalid(format!("the kernel's queue needs {expected} memory, the view is of {found} memory"))
}

fn check_range(range: &Range<usize>, available: usize) -> Result<()> {
    if range.start <= range.end && range.end <= available {
        return Ok(());
    }
    Err(Error::invalid(format!("the view has {available} elements, not {range:?}")))
}

/// Checks that a view has exactly the number of elements that a plan was made for.
pub(crate) fn check_len(name: &(impl Display + ?Sized), found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::invalid(format!("{name}: the plan is for {expected} elements, the view has {found}")))
}
