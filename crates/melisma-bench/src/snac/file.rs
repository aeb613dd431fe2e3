//! Writes and opens a full-size checkpoint with random weights.

use std::time::Duration;

use melisma::snac::noise::fill_normal;
use melisma::snac::{Config, Model};
use melisma::{Error, ErrorKind, Result};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};

use super::{Plan, Rig, Row, SEED, measure};
use crate::folder::Folder;

/// Measures the time from a file to a model that is ready to decode.
pub(super) fn rows(rig: &Rig) -> Result<Vec<Row>> {
    let folder = model_folder("load", &Config::snac_24khz())?;
    let source = folder.path();
    let mut outcome = Ok(());
    let plan = Plan { warm_up: 1, least: 5, most: 9, time: Duration::from_secs(3) };
    let load = || Model::open_in(&rig.0, &source).and_then(|model| rig.engine(&model, 1));
    let measured = measure(plan, || outcome = load().map(drop));
    outcome?;
    Ok(vec![measured.seconds("snac/load")])
}

/// Returns a folder with a model of this shape and random weights, the same on every run.
pub(crate) fn model_folder(name: &str, config: &Config) -> Result<Folder> {
    let folder = Folder::create(name)?;
    folder.write("config.json", config_json(config).as_bytes())?;
    folder.write("model.safetensors", &checkpoint(config)?)?;
    Ok(folder)
}

pub(crate) fn config_json(config: &Config) -> String {
    serde_json::json!({
        "sampling_rate": config.sampling_rate, "encoder_dim": config.encoder_dim,
        "encoder_rates": config.encoder_rates, "decoder_dim": config.decoder_dim,
        "decoder_rates": config.decoder_rates, "attn_window_size": config.attn_window_size,
        "codebook_size": config.codebook_size, "codebook_dim": config.codebook_dim,
        "vq_strides": config.vq_strides, "noise": config.noise, "depthwise": config.depthwise,
    })
    .to_string()
}

/// How the values of a tensor are distributed.
#[derive(Clone, Copy)]
struct Normal {
    mean: f32,
    deviation: f32,
}

impl Normal {
    const fn around(mean: f32) -> Self {
        Self { mean, deviation: 0.1 * mean }
    }

    const fn scaled(deviation: f32) -> Self {
        Self { mean: 0.0, deviation }
    }
}

/// Names, shapes and bytes in the format of the package `snac`; for depthwise models.
#[derive(Default)]
struct Tensors(Vec<(String, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn add(&mut self, name: String, shape: &[usize], normal: Normal) {
        let mut values = vec![0.0; shape.iter().product()];
        fill_normal(SEED, self.0.len() as u32, 0, &mut values);
        let value = |x: f32| normal.mean + normal.deviation * x;
        let bytes = values.into_iter().flat_map(|x| value(x).to_le_bytes()).collect();
        self.0.push((name, shape.to_vec(), bytes));
    }

    fn convolution(&mut self, name: &str, shape: [usize; 3]) {
        self.add(format!("{name}.parametrizations.weight.original0"), &[shape[0], 1, 1], Normal::around(0.7));
        self.add(format!("{name}.parametrizations.weight.original1"), &shape, Normal::scaled(1.0));
    }

    fn biased(&mut self, name: &str, shape: [usize; 3], n_out: usize) {
        self.convolution(name, shape);
        self.add(format!("{name}.bias"), &[n_out], Normal::scaled(0.01));
    }

    fn snake(&mut self, name: &str, n_channels: usize) {
        self.add(format!("{name}.alpha"), &[1, n_channels, 1], Normal::around(1.0));
    }

    fn attention(&mut self, name: &str, n_channels: usize) {
        let linear = Normal::scaled((n_channels as f32).sqrt().recip());
        self.add(format!("{name}.norm.weight"), &[n_channels], Normal::around(1.0));
        self.add(format!("{name}.norm.bias"), &[n_channels], Normal::scaled(0.01));
        self.add(format!("{name}.to_qkv.weight"), &[3 * n_channels, n_channels], linear);
        self.add(format!("{name}.to_out.weight"), &[n_channels, n_channels], linear);
    }

    fn residual(&mut self, name: &str, n_channels: usize) {
        self.snake(&format!("{name}.block.0"), n_channels);
        self.biased(&format!("{name}.block.1"), [n_channels, 1, 7], n_channels);
        self.snake(&format!("{name}.block.2"), n_channels);
        self.biased(&format!("{name}.block.3"), [n_channels, n_channels, 1], n_channels);
    }

    fn encoder(&mut self, config: &Config) {
        let mut dim = config.encoder_dim;
        self.biased("encoder.block.0", [dim, 1, 7], dim);
        for (index, rate) in config.encoder_rates.iter().enumerate() {
            let name = format!("encoder.block.{}", index + 1);
            (0..3).for_each(|unit| self.residual(&format!("{name}.block.{unit}"), dim));
            self.snake(&format!("{name}.block.3"), dim);
            self.biased(&format!("{name}.block.4"), [2 * dim, dim, 2 * rate], 2 * dim);
            dim *= 2;
        }
        let mut index = config.encoder_rates.len() + 1;
        if config.attn_window_size.is_some() {
            self.attention(&format!("encoder.block.{index}"), dim);
            index += 1;
        }
        self.biased(&format!("encoder.block.{index}"), [dim, 1, 7], dim);
    }

    fn quantizer(&mut self, config: &Config) {
        let (latent, code) = (config.latent_dim(), config.codebook_dim);
        for level in 0..config.vq_strides.len() {
            let name = format!("quantizer.quantizers.{level}");
            self.biased(&format!("{name}.in_proj"), [code, latent, 1], code);
            self.biased(&format!("{name}.out_proj"), [latent, code, 1], latent);
            self.add(format!("{name}.codebook.weight"), &[config.codebook_size, code], Normal::scaled(1.0));
        }
    }

    fn decoder(&mut self, config: &Config) {
        let (latent, mut dim) = (config.latent_dim(), config.decoder_dim);
        self.biased("decoder.model.0", [latent, 1, 7], latent);
        self.biased("decoder.model.1", [dim, latent, 1], dim);
        let mut index = 2;
        if config.attn_window_size.is_some() {
            self.attention("decoder.model.2", dim);
            index += 1;
        }
        for rate in &config.decoder_rates {
            let name = format!("decoder.model.{index}");
            self.snake(&format!("{name}.block.0"), dim);
            self.biased(&format!("{name}.block.1"), [dim, dim / 2, 2 * rate], dim / 2);
            dim /= 2;
            self.convolution(&format!("{name}.block.2.linear"), [dim, dim, 1]);
            (3..6).for_each(|unit| self.residual(&format!("{name}.block.{unit}"), dim));
            index += 1;
        }
        self.snake(&format!("decoder.model.{index}"), dim);
        self.biased(&format!("decoder.model.{}", index + 1), [1, dim, 7], 1);
    }
}

fn checkpoint(config: &Config) -> Result<Vec<u8>> {
    let mut tensors = Tensors::default();
    tensors.encoder(config);
    tensors.quantizer(config);
    tensors.decoder(config);
    let refused = |error: safetensors::SafeTensorError| Error::new(ErrorKind::Io, error.to_string()).with_source(error);
    let views = tensors
        .0
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(refused)?)));
    serialize(views.collect::<Result<Vec<_>>>()?, None).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use melisma::Budget;

    #[test]
    fn synthetic_checkpoints_load() {
        for mut small in [Config::snac_24khz(), Config::snac_44khz()] {
            (small.encoder_dim, small.decoder_dim) = (4, 64);
            let (config, weights) = (config_json(&small), checkpoint(&small).unwrap());
            let model = Model::from_bytes(config.as_bytes(), &weights, &Budget::unlimited()).unwrap();
            assert_eq!(model.config(), &small);
        }
    }
}
