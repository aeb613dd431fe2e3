//! cuBLASLt. It is column-major: our row-major C = A·B is its C' = B'·A' on the same bytes.
//!
//! Half-precision matrices whose K or N is not a multiple of 8 are first copied into padded
//! matrices, so that tensor cores can be used. The padding is zero in K and is cut off in N.

use std::ffi::c_void;

use super::{Matmul, Scalar};
use crate::device::cuda::bindings::cublaslt::{result as lt, sys};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Library, Source, cublaslt_failed, require};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, arguments};
use crate::{DType, Result};

pub(crate) const SOURCE: Source = Source { name: "matmul", text: include_str!("matmul.cu"), headers: &[DEVICE] };

/// Workspace that the library may use besides the matrices.
const WORKSPACE_BYTES: usize = 32 << 20;
/// Tensor cores need rows of half-precision matrices to start on 16 bytes.
const PAD: usize = 8;
const BLOCK: u32 = 256;

/// The algorithm of one product, used for every chunk of its rows.
#[derive(Debug)]
pub(super) struct Prepared {
    cuda: Cuda,
    descriptor: Descriptor,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace_bytes: usize,
    /// K and N as the library sees them.
    padded_k: usize,
    padded_n: usize,
    pad: Option<Function>,
}

// SAFETY: the descriptor is read-only after creation.
unsafe impl Send for Prepared {}
// SAFETY: the descriptor is read-only after creation.
unsafe impl Sync for Prepared {}

impl Prepared {
    pub(super) fn new<T: Scalar>(cuda: &Cuda, shape: &Matmul) -> Result<Self> {
        let half = T::DTYPE != DType::F32;
        let padded = |len: usize| if half { len.next_multiple_of(PAD) } else { len };
        let (padded_k, padded_n) = (padded(shape.k), padded(shape.n));
        let pad = (padded_k, padded_n) != (shape.k, shape.n);
        let pad = pad.then(|| cuda.function(SOURCE, "matmul_pad")).transpose()?;
        let descriptor = Descriptor::new::<T>(shape.tf32)?;
        let mut prepared = Self {
            cuda: cuda.clone(),
            descriptor,
            algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspace_bytes: 0,
            padded_k,
            padded_n,
            pad,
        };
        if shape.m * padded_k * padded_n > 0 {
            let layouts = prepared.layouts(shape.m)?;
            let choice = prepared.choose(&layouts).map_err(|error| error.at(format!("matmul {shape:?}")))?;
            (prepared.algorithm, prepared.workspace_bytes) = (choice.algo, choice.workspaceSize);
        }
        Ok(prepared)
    }

    fn layouts(&self, m: usize) -> Result<Layouts> {
        let kind = self.descriptor.storage;
        Ok(Layouts {
            b: Layout::new(kind, self.padded_n, self.padded_k)?,
            a: Layout::new(kind, self.padded_k, m)?,
            c: Layout::new(kind, self.padded_n, m)?,
        })
    }

    fn choose(&self, layouts: &Layouts) -> Result<sys::cublasLtMatmulHeuristicResult_t> {
        let preference = Preference::new()?;
        let Layouts { a, b, c } = layouts;
        let library = self.cuda.cublaslt()?;
        // SAFETY: all descriptors are alive.
        unsafe {
            lt::get_matmul_algo_heuristic(library.handle(), self.descriptor.handle, b.0, a.0, c.0, c.0, preference.0)
        }
        .map_err(|error| cublaslt_failed("find an algorithm", error))
    }

    pub(super) fn run<T: Scalar>(
        &self,
        queue: &CudaQueue,
        shape: Matmul,
        a: CudaView<'_, T>,
        b: CudaView<'_, T>,
        c: CudaViewMut<'_, T>,
    ) -> Result<()> {
        let Matmul { m, k, n, .. } = shape;
        if m * n == 0 {
            return Ok(());
        }
        if k == 0 {
            return queue.fill_zero(c.address_dev, m * n * size_of::<T>());
        }
        let padded = [m * self.padded_k, self.padded_k * self.padded_n, m * self.padded_n];
        let [a_bytes, b_bytes, c_bytes] = padded.map(|len| if self.pad.is_some() { len * size_of::<T>() } else { 0 });
        let scratch = queue.scratch([self.workspace_bytes, a_bytes, b_bytes, c_bytes])?;
        let mut matrices = [a.address_dev, b.address_dev, c.address_dev];
        if let Some(pad) = &self.pad {
            matrices = [scratch[1], scratch[2], scratch[3]];
            self.copy(
                queue,
                pad,
                Copy { from: a.address_dev, to: scratch[1], rows: (m, m), columns: (k, self.padded_k) },
            )?;
            let rows = (k, self.padded_k);
            self.copy(queue, pad, Copy { from: b.address_dev, to: scratch[2], rows, columns: (n, self.padded_n) })?;
        }
        self.multiply(queue, m, matrices, scratch[0])?;
        if let Some(pad) = &self.pad {
            let columns = (self.padded_n, n);
            self.copy(queue, pad, Copy { from: scratch[3], to: c.address_dev, rows: (m, m), columns })?;
        }
        Ok(())
    }

    fn multiply(&self, queue: &CudaQueue, m: usize, [a, b, c]: [Address; 3], workspace: Address) -> Result<()> {
        let layouts = self.layouts(m)?;
        let (one, zero) = (1f32, 0f32);
        queue.cuda().bind()?;
        // SAFETY: the matrices hold what the layouts say; the workspace holds `workspace_bytes`.
        unsafe {
            lt::matmul(
                self.cuda.cublaslt()?.handle(),
                self.descriptor.handle,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                b as *const c_void,
                layouts.b.0,
                a as *const c_void,
                layouts.a.0,
                c as *const c_void,
                layouts.c.0,
                c as *mut c_void,
                layouts.c.0,
                &self.algorithm,
                workspace as *mut c_void,
                self.workspace_bytes,
                queue.handle().cast(),
            )
        }
        .map_err(|error| cublaslt_failed("multiply", error))
    }

    /// Copies rows to another width and pads with zeros.
    fn copy(&self, queue: &CudaQueue, pad: &Function, copy: Copy) -> Result<()> {
        let Copy { from, to, rows, columns } = copy;
        let (from_rows, to_rows) = (rows.0 as u64, rows.1 as u64);
        let (from_columns, to_columns) = (columns.0 as u64, columns.1 as u64);
        let blocks = (to_rows * to_columns).div_ceil(u64::from(BLOCK)).min(1 << 20) as u32;
        let launch = Launch { grid: (blocks, 1, 1), block: (BLOCK, 1, 1), shared_bytes: 0 };
        // SAFETY: both sides hold their rows x columns of 16-bit elements.
        unsafe { queue.launch(pad, launch, arguments![from, to, from_rows, to_rows, from_columns, to_columns]) }
    }
}

/// Rows and columns as (source, destination).
struct Copy {
    from: Address,
    to: Address,
    rows: (usize, usize),
    columns: (usize, usize),
}

struct Layouts {
    a: Layout,
    b: Layout,
    c: Layout,
}

struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    /// Creates a dense column-major matrix.
    fn new(storage: sys::cudaDataType, rows: usize, columns: usize) -> Result<Self> {
        lt::create_matrix_layout(storage, rows as u64, columns as u64, rows.max(1) as i64)
            .map(Self)
            .map_err(|error| cublaslt_failed("describe a matrix", error))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { lt::destroy_matrix_layout(self.0) };
    }
}

#[derive(Debug)]
struct Descriptor {
    handle: sys::cublasLtMatmulDesc_t,
    storage: sys::cudaDataType,
}

impl Descriptor {
    fn new<T: Scalar>(tf32: bool) -> Result<Self> {
        require(Library::CublasLt)?;
        let storage = match T::DTYPE {
            DType::F16 => sys::cudaDataType::CUDA_R_16F,
            DType::BF16 => sys::cudaDataType::CUDA_R_16BF,
            _ => sys::cudaDataType::CUDA_R_32F,
        };
        let rounded = tf32 && T::DTYPE == DType::F32;
        let compute = if rounded {
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
        } else {
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F
        };
        let handle = lt::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)
            .map_err(|error| cublaslt_failed("describe a product", error))?;
        Ok(Self { handle, storage })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { lt::destroy_matmul_desc(self.handle) };
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new() -> Result<Self> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = Self(lt::create_matmul_pref().map_err(|error| cublaslt_failed("state a preference", error))?);
        let workspace = WORKSPACE_BYTES as u64;
        let no_split_k = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE as u32;
        // SAFETY: each value has the type that its attribute takes.
        unsafe {
            lt::set_matmul_pref_attribute(
                preference.0,
                Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const workspace).cast(),
                size_of_val(&workspace),
            )
            .and_then(|()| {
                lt::set_matmul_pref_attribute(
                    preference.0,
                    Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                    (&raw const no_split_k).cast(),
                    size_of_val(&no_split_k),
                )
            })
        }
        .map_err(|error| cublaslt_failed("state a preference", error))?;
        Ok(preference)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { lt::destroy_matmul_pref(self.0) };
    }
}
