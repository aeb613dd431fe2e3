//! Codes that the package `snac` gives to speech and music, and the rule for comparing ours with them.

use melisma::Budget;
use melisma::audio::wav;
use melisma::snac::reference::{self, Choice};
use melisma::snac::{Codes, Model};
use safetensors::{SafeTensors, serialize};

use crate::codec::file;

/// The models with expected codes.
pub const MODELS: [&str; 3] = ["tiny24", "mini24", "tiny44"];
/// The clips with expected codes, for each model.
pub const CLIPS: [&str; 2] = ["speech", "music"];

/// The model called `name`, with the biases that the expected codes were made with.
pub fn model(name: &str) -> Model {
    if name == "mini24" {
        return Model::mini24().unwrap();
    }
    let (weights, expected) = (file(name, "model.safetensors"), file("encode", "expected.safetensors"));
    let (weights, expected) =
        (SafeTensors::deserialize(&weights).unwrap(), SafeTensors::deserialize(&expected).unwrap());
    let moved = |key: String| {
        let bias = key.strip_prefix("quantizer.").and_then(|key| expected.tensor(&format!("{name}.{key}")).ok());
        let plain = weights.tensor(&key).unwrap();
        (key, bias.unwrap_or(plain))
    };
    let tensors = weights.names().into_iter().map(|key| moved(key.to_owned()));
    let bytes = serialize(tensors, None).unwrap();
    Model::from_bytes(&file(name, "config.json"), &bytes, &Budget::unlimited()).unwrap()
}

/// A clip and the codes that a model should give it.
pub struct Case {
    pub name: String,
    pub samples: Vec<f32>,
    pub levels: Vec<Level>,
}

/// One level's codes, the second nearest ones, and by how much their distances are larger, relative to themselves.
pub struct Level {
    pub codes: Vec<i32>,
    pub second: Vec<i32>,
    pub margin: Vec<f32>,
}

/// How the codes of a clip compare with the expected ones.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The expected code.
    pub equal: usize,
    /// The second nearest code, where the two nearest tie.
    pub tied: usize,
    /// Below a tie: the code that the reference quantiser chooses after our coarser codes.
    pub following: usize,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.equal += other.equal;
        self.tied += other.tied;
        self.following += other.following;
    }

    pub fn total(self) -> usize {
        self.equal + self.tied + self.following
    }
}

impl Case {
    pub fn open(clip: &str, model_name: &str, model: &Model) -> Self {
        let rate = model.config().sampling_rate;
        let sound = file("encode", &format!("{clip}_{rate}.wav"));
        let expected = file("encode", "expected.safetensors");
        let expected = SafeTensors::deserialize(&expected).unwrap();
        let words = |key: String| -> Vec<[u8; 4]> { expected.tensor(&key).unwrap().data().as_chunks().0.to_vec() };
        let level = |level: usize| {
            let integers = |part: &str| {
                let words = words(format!("{clip}.{model_name}.{level}.{part}"));
                words.into_iter().map(i32::from_le_bytes).collect::<Vec<i32>>()
            };
            let margin = words(format!("{clip}.{model_name}.{level}.margin"));
            Level {
                codes: integers("codes"),
                second: integers("second"),
                margin: margin.into_iter().map(f32::from_le_bytes).collect(),
            }
        };
        Self {
            name: format!("{model_name}, {clip}"),
            samples: wav::decode(&sound).unwrap().to_clip().samples,
            levels: (0..model.config().vq_strides.len()).map(level).collect(),
        }
    }

    /// `samples` with the codes that the reference model gives them.
    pub fn of_reference(name: &str, model: &Model, samples: Vec<f32>) -> Self {
        let level = |choices: Vec<Choice>| Level {
            codes: choices.iter().map(|choice| choice.code).collect(),
            second: choices.iter().map(|choice| choice.next).collect(),
            margin: choices.iter().map(|choice| 2.0 * choice.margin / choice.next_distance).collect(),
        };
        let levels =
            reference::quantizer(model).encode(&reference::latents(model, &samples)).into_iter().map(level).collect();
        Self { name: name.to_owned(), samples, levels }
    }

    /// All cases of a model.
    pub fn all(model_name: &str, model: &Model) -> Vec<Self> {
        CLIPS.iter().map(|clip| Self::open(clip, model_name, model)).collect()
    }

    /// The same clip with only the first `n_frames` frames of codes, for streams that have not ended.
    pub fn first(&self, n_frames: usize) -> Self {
        let level = |level: &Level| {
            let n = n_frames * level.codes.len() / self.levels[0].codes.len();
            let [codes, second] = [&level.codes, &level.second].map(|codes| codes[..n].to_vec());
            Level { codes, second, margin: level.margin[..n].to_vec() }
        };
        Self { name: self.name.clone(), samples: self.samples.clone(), levels: self.levels.iter().map(level).collect() }
    }

    /// Compares each code with the expected one. It must be equal; or the two nearest codes tie, and it is the second.
    /// Codes below a tie are compared with what the reference quantiser chooses after our coarser codes.
    pub fn compare(&self, model: &Model, found: &Codes) -> Result<Tally, String> {
        let found = found.levels();
        let mut tally = Tally::default();
        let mut latents = None;
        for (index, (level, codes)) in self.levels.iter().zip(&found).enumerate() {
            if codes.len() != level.codes.len() {
                return Err(format!("{}: {} codes, expected {}", self.name, codes.len(), level.codes.len()));
            }
            let mut after = None;
            for (at, &code) in codes.iter().enumerate() {
                let (expected, second, is_tie) = if self.is_below_tie(&found, [index, at]) {
                    let latents = latents.get_or_insert_with(|| reference::latents(model, &self.samples));
                    let after =
                        after.get_or_insert_with(|| reference::quantizer(model).encode_after(latents, &found[..index]));
                    let choice: Choice = after[at];
                    tally.following += usize::from(code == choice.code);
                    (choice.code, choice.next, choice.is_tie())
                } else {
                    tally.equal += usize::from(code == level.codes[at]);
                    (level.codes[at], level.second[at], level.margin[at] < Choice::TIE)
                };
                if code != expected {
                    if !is_tie || code != second {
                        return Err(format!("{}: level {index}, code {at} is {code}, expected {expected}", self.name));
                    }
                    tally.tied += 1;
                }
            }
        }
        Ok(tally)
    }

    /// Whether a coarser code of the same latents differs from the expected one.
    fn is_below_tie(&self, found: &[Vec<i32>], [level, at]: [usize; 2]) -> bool {
        let n = self.levels[level].codes.len();
        (0..level).any(|above| {
            let at = at * found[above].len() / n;
            found[above][at] != self.levels[above].codes[at]
        })
    }
}
