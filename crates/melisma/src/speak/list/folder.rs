//! A list to a folder of audio: each file appears when it is whole.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use super::job::{Event, Job, Spoken};
use crate::audio::stretch::Stretch;
use crate::audio::wav::SampleFormat;
use crate::audio::{Format, Layout, Writer};
use crate::output::{self, Existing, OutputFile};
use crate::snac::{Codes, Decoder};
use crate::speak::{Progress, SpokenText};
use crate::{Error, Result};

impl Job<'_> {
    /// Speaks to files in `folder`. Those that are there stay, unless they may be replaced.
    ///
    /// # Errors
    /// No line can be spoken, a file cannot be written, memory is too small, the device failed, or `watch` did.
    pub fn to_folder(
        &self,
        folder: &Path,
        samples: SampleFormat,
        watch: &mut dyn FnMut(Event<'_>) -> Result<()>,
    ) -> Result<Spoken> {
        let mut spoken = Spoken::default();
        let rename = |name: String| {
            let name = if Path::new(&name).extension().is_some() { name } else { format!("{name}.wav") };
            Format::of(Path::new(&name), samples).map(|_| name)
        };
        let mut tasks = self.tasks(rename, &mut spoken, watch)?;
        let names: Vec<_> = tasks.iter().map(|task| (task.number, task.name.clone())).collect();
        if self.existing == Existing::Refuse {
            let n_all = tasks.len();
            tasks.retain(|task| !folder.join(&task.name).exists());
            spoken.n_kept = n_all - tasks.len();
        }
        if tasks.is_empty() && spoken.n_kept == 0 {
            self.check_some()?;
        }
        self.need(tasks.iter().map(|task| &task.script), watch)?;
        watch(Event::Planned { n_texts: tasks.len(), n_kept: spoken.n_kept })?;
        output::create_directory(folder)?;
        let decoding = self.delivery.decoding.clone();
        let mut decoder = Decoder::new_in(self.speaker.context(), self.speaker.codec().clone(), decoding)?;
        let scripts: Vec<_> = tasks.into_iter().map(|task| ((task.number, task.name), task.script)).collect();
        self.estimate(&scripts, Some(&mut decoder), watch)?;
        self.speaker.speak_all_watched(scripts, &self.delivery.settings, |progress| {
            let ((number, name), said) = match progress {
                Progress::Step => return watch(Event::Step),
                Progress::Done(named, said) => (named, said),
            };
            match said {
                Err(error) => spoken.fail(number, error, watch)?,
                Ok(SpokenText { codes, notes, .. }) => {
                    spoken.note(number, notes, watch)?;
                    let found = self.samples(&mut decoder, &codes)?;
                    self.write(&folder.join(name), samples, &found)?;
                    spoken.n_spoken += 1;
                    spoken.n_frames += codes.n_frames();
                    spoken.n_samples += found.len() as u64;
                }
            }
            watch(Event::Done)
        })?;
        let failed: HashSet<u32> = spoken.failures.iter().map(|(number, _)| *number).collect();
        let is_there = |(number, name): (u32, String)| (!failed.contains(&number)).then_some(name);
        spoken.files = names.into_iter().filter_map(is_there).collect();
        Ok(spoken)
    }

    fn samples(&self, decoder: &mut Decoder, codes: &Codes) -> Result<Vec<f32>> {
        let _span = tracing::info_span!("codec", n = codes.n_frames()).entered();
        let samples = decoder.decode(codes)?;
        if self.delivery.speed == 1.0 {
            return Ok(samples);
        }
        let mut stretch = Stretch::new(Layout::new(decoder.sample_rate(), 1), self.delivery.speed)?;
        let mut stretched = stretch.push(&samples).to_vec();
        stretched.extend(stretch.finish());
        Ok(stretched)
    }

    fn write(&self, path: &Path, format: SampleFormat, samples: &[f32]) -> Result<()> {
        let _span = tracing::info_span!("encode", n = samples.len()).entered();
        let failed = |error: Error| output::named(path, error);
        let layout = Layout::new(self.speaker.codec().config().sampling_rate, 1);
        let file = OutputFile::create(path, self.existing)?;
        let mut writer = Writer::new(file, Format::of(path, format)?, layout).map_err(failed)?;
        writer.write(samples).map_err(failed)?;
        let mut file = writer.seal().map_err(failed)?;
        file.flush().map_err(|error| output::failed(path, error))?;
        file.commit()
    }
}
