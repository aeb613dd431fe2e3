//! Mel spectrograms: presets that give the numbers of torchaudio, librosa, Whisper, Kaldi and HiFi-GAN, every value of
//! which can be changed.
//!
//! ```
//! use melisma::mel::{Config, Transform};
//!
//! let mut config = Config::preset("whisper-80")?;
//! config.n_mels = 40;
//! let transform = Transform::new(config)?;
//! let mel = transform.run(&[0.1; 16_000])?;
//! assert_eq!(mel.shape, [40, 100]);
//! # Ok::<(), melisma::Error>(())
//! ```

mod config;
mod filterbank;
mod kernel;
mod key;
pub mod picture;
mod preset;
mod set;
mod transform;
mod unknown;

pub use config::{Config, Framing, Log, MelScale, Norm, OutputPrecision, Padding, Window};
pub use filterbank::filterbank;
#[doc(hidden)]
pub use key::{Allowed, KEYS, Key};
#[doc(hidden)]
pub use melisma_kernels::signal::mel::{Batch, Mel, Order, Plan};
pub use melisma_kernels::signal::mel::{Sample, Value};
pub use preset::PRESETS;
pub use transform::{Spectrogram, Transform, Values};
