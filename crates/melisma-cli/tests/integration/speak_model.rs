//! `speak`: the voice model: its precision, its settings and its codec.

use melisma::snac::Model;
use melisma::speak::synthetic::{self, Shape};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::sandbox::{Ran, Sandbox, golden_file};
use crate::speak::{bytes, done, run, stocked};

/// Writes the weights of the voice again, in f32.
fn widen(sandbox: &Sandbox) {
    let path = sandbox.path("voice/model.safetensors");
    let file = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let floats = |bytes: &[u8]| -> Vec<u8> {
        // A bf16 is the upper half of a float.
        bytes.as_chunks().0.iter().flat_map(|&[low, high]: &[u8; 2]| [0, 0, low, high]).collect()
    };
    let wide: Vec<_> =
        file.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec(), floats(view.data()))).collect();
    let views =
        wide.iter().map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    safetensors::serialize_to_file(views, None, &path).unwrap();
}

/// A GPU rounds f32 weights where that is allowed; the CPU computes with them as they are.
#[test]
fn wide_weights_speak_with_a_permission_on_cuda() {
    let sandbox = stocked();
    let model = golden_file("snac/tiny24");
    let speak = |output: &str, rest: &[&str]| {
        let common = ["speak", "Hi.", "-o", output, "--voice-model", "voice", "--model", &model];
        Some(Ran::from(sandbox.on_cuda(&[&common, rest].concat())?.output().unwrap()))
    };
    let Some(narrow) = speak("narrow.wav", &["--precision", "bf16"]) else { return };
    assert_eq!(narrow.code, 0, "{}", narrow.stderr);
    widen(&sandbox);
    let refused = speak("wide.wav", &[]).unwrap();
    assert!(refused.code != 0 && refused.stderr.contains("hint: use --precision bf16"), "{}", refused.stderr);
    let wide = speak("wide.wav", &["--precision", "bf16"]).unwrap();
    assert_eq!(wide.code, 0, "{}", wide.stderr);
    assert!(bytes(&sandbox, "wide.wav") == bytes(&sandbox, "narrow.wav"));
}

#[test]
fn wide_weights_are_never_rounded_on_the_cpu() {
    let sandbox = stocked();
    done(&sandbox, &["Hi.", "-o", "narrow.wav"]);
    widen(&sandbox);
    for (output, precision) in
        [("a.wav", &[][..]), ("b.wav", &["--precision", "bf16"]), ("c.wav", &["--precision", "fp32"])]
    {
        done(&sandbox, &[&["Hi.", "-o", output], precision].concat());
        assert!(bytes(&sandbox, output) == bytes(&sandbox, "narrow.wav"), "{output}");
    }
}

/// A section of `melisma.yaml` wins over the model's file, key by key, and stands in for it.
#[test]
fn settings_describe_a_voice_model() {
    let sandbox = stocked();
    done(&sandbox, &["Hi.", "--voice", "bob", "-o", "own.wav"]);
    let yaml = std::fs::read_to_string(sandbox.path("voice/speak.yaml")).unwrap();
    let write = |text: &str| std::fs::write(sandbox.path("melisma.yaml"), text).unwrap();
    write("speak:\n  voices: [bob, eve]\n");
    done(&sandbox, &["Hi.", "--config", "melisma.yaml", "-o", "first.wav"]);
    assert!(bytes(&sandbox, "first.wav") == bytes(&sandbox, "own.wav"));
    let ran = run(&sandbox, &["Hi.", "--config", "melisma.yaml", "--voice", "ann", "-o", "x.wav"]);
    assert!(ran.code == 2 && ran.stderr.contains("hint: the voices are bob, eve"), "{}", ran.stderr);
    // A model without a file of its own.
    std::fs::remove_file(sandbox.path("voice/speak.yaml")).unwrap();
    let ran = run(&sandbox, &["Hi.", "-o", "x.wav"]);
    assert!(ran.code == 2 && ran.stderr.contains("in the settings `speak`"), "{}", ran.stderr);
    write(&format!("speak:\n{}", yaml.lines().map(|line| format!("  {line}\n")).collect::<String>()));
    done(&sandbox, &["Hi.", "--config", "melisma.yaml", "--voice", "bob", "-o", "whole.wav"]);
    assert!(bytes(&sandbox, "whole.wav") == bytes(&sandbox, "own.wav"));
    write("speak:\n  before: [1, x]\n");
    let ran = run(&sandbox, &["Hi.", "--config", "melisma.yaml", "-o", "x.wav"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("melisma.yaml:2: `speak.before`: expected a list of token ids"),
        "{}",
        ran.stderr
    );
}

/// Orpheus is recognised by its tokenizer, and would speak noise with the built-in codec.
#[test]
fn orpheus_is_refused_with_the_built_in_codec() {
    let (sandbox, mini) = (Sandbox::new(), Model::mini24().unwrap());
    synthetic::write_zeros(&sandbox.path("small"), &mini, Shape::default()).unwrap();
    // Large enough for Orpheus' vocabulary, with the tokenizer of the small one.
    let shape = Shape { n_words: 156_940 - 264 - 7 * 4096, ..Shape::default() };
    synthetic::write_zeros(&sandbox.path("voice"), &mini, shape).unwrap();
    let tokenizer = std::fs::read_to_string(sandbox.path("small/tokenizer.json")).unwrap();
    std::fs::write(sandbox.path("voice/tokenizer.json"), tokenizer.replace("\"id\":258", "\"id\":128256")).unwrap();
    let yaml = std::fs::read_to_string(sandbox.path("voice/speak.yaml")).unwrap();
    std::fs::remove_file(sandbox.path("voice/speak.yaml")).unwrap();
    let speak = |output: &str| sandbox.run(&["speak", "Hi.", "-o", output, "--voice-model", "voice"]);
    let ran = speak("x.wav");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("with the built-in codec it speaks noise"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: name the codec that it was trained with: --model DIR"), "{}", ran.stderr);
    assert!(!sandbox.path("x.wav").exists());
    // A file that says nothing of a codec is believed, with a warning.
    let without: String =
        yaml.lines().filter(|line| !line.starts_with("codec")).map(|line| format!("{line}\n")).collect();
    std::fs::write(sandbox.path("voice/speak.yaml"), without).unwrap();
    let ran = speak("y.wav");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("does not say which codec"), "{}", ran.stderr);
}
