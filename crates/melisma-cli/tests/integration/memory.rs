//! `--memory-limit` holds, and `-v` says what was held.

use crate::sandbox::{Ran, Sandbox, golden_file, skip};

#[cfg(target_os = "linux")]
#[test]
fn verbose_runs_say_what_memory_they_held() {
    let sandbox = Sandbox::new();
    let (ran, peak) = sandbox.measure(&["completions", "bash"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(peak.resident > (1 << 20) as f64 && peak.counted.is_none(), "{peak:?}");
    let (ran, peak) = sandbox.measure(&["doctor", "--device", "cpu"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(peak.counted.is_some(), "{peak:?}");
    let own = ran.stderr.lines().find_map(|line| line.strip_prefix("resident memory of the program itself: "));
    let own: f64 = own.and_then(|own| own.strip_suffix("MiB")?.parse().ok()).unwrap();
    assert!(own > 1.0 && own * (1 << 20) as f64 <= 1.01 * peak.resident, "{own} MiB of {peak:?}");
    let json = sandbox.json(&["doctor", "--device", "cpu", "--json"]);
    assert!(json["program_bytes"].as_u64().unwrap() > 1 << 20, "{json}");
    let table = sandbox.run(&["doctor", "--device", "cpu"]).stdout;
    assert!(table.lines().any(|line| line.starts_with("program itself ")), "{table}");
}

#[cfg(target_os = "linux")]
#[test]
fn errors_name_the_memory_of_the_program_itself() {
    let sandbox = stocked();
    let args = ["decode", "t.txt", "-o", "out.wav", "--device", "cpu", "--json", "--memory-limit"];
    let refused = sandbox.run(&[&args[..], &["1MiB"]].concat());
    let error = &refused.json()["error"];
    assert_eq!((refused.code, error["kind"].as_str()), (4, Some("memory")), "{error}");
    assert!(error["program_bytes"].as_u64().unwrap() > 1 << 20, "{error}");
    let other = sandbox.run(&["decode", "absent.txt", "-o", "out.wav", "--json"]).json();
    assert!(other["error"].get("program_bytes").is_none(), "{other}");
}

/// The limit that the refusal of 1 MiB says is enough, in bytes; it must be.
#[cfg(target_os = "linux")]
fn least(sandbox: &Sandbox, line: &str) -> u64 {
    let args: Vec<&str> = line.split(' ').collect();
    let limited = [&args[..], &["-f", "--memory-limit", "1MiB"]].concat();
    let refused = sandbox.run(&limited);
    assert_eq!(refused.code, 4, "{line}: {}", refused.stderr);
    let (_, peak) = sandbox.measure(&limited);
    assert!(peak.counted.is_none_or(|counted| counted <= (1 << 20) as f64), "{line}: {peak:?}");
    assert!(peak.resident < (64 << 20) as f64, "{line}: the refusal took {peak:?}");
    let mut lines = refused.stderr.lines();
    let error = lines.next().unwrap();
    assert!(error.contains(" needs ") && error.ends_with("; the memory limit is 1MiB"), "{line}: {}", refused.stderr);
    let note = lines.find_map(|line| line.strip_prefix("note: the limit counts what Melisma allocates, beside "));
    let program = note.and_then(|note| note.strip_suffix("MiB of the program itself")?.parse().ok());
    assert!(program.is_some_and(|mebibytes| (1.0..64.0).contains(&mebibytes)), "{line}: {}", refused.stderr);
    let hint = refused.stderr.split_once("hint: use --memory-limit ").unwrap_or_else(|| panic!("{}", refused.stderr)).1;
    let least = hint.split_once(" or more").unwrap().0;
    let (ran, peak) = sandbox.measure(&[&args[..], &["-f", "--memory-limit", least]].concat());
    assert_eq!(ran.code, 0, "{line} --memory-limit {least}: {}", ran.stderr);
    let limit = melisma::text::size::parse(least).unwrap();
    peak.check(limit);
    limit
}

#[cfg(target_os = "linux")]
fn stocked() -> Sandbox {
    let sandbox = Sandbox::new();
    let token = |i: usize| format!("<custom_token_{}>", 10 + 4096 * (i % 7) + i * 131 % 4096);
    std::fs::write(sandbox.path("t.txt"), (0..700).map(token).collect::<String>()).unwrap();
    let levels: Vec<Vec<usize>> = [1, 2, 4].map(|n| (0..n * 200).map(|i| i * 131 % 4096).collect()).to_vec();
    std::fs::write(sandbox.path("t.json"), serde_json::to_string(&levels).unwrap()).unwrap();
    let clip = melisma::audio::Clip::mono(24_000, vec![0.1; 120_000]);
    let bytes = melisma::audio::wav::encode(&clip, melisma::audio::wav::SampleFormat::S16).unwrap();
    std::fs::write(sandbox.path("in.wav"), bytes).unwrap();
    sandbox
}

#[cfg(target_os = "linux")]
#[test]
fn decode_keeps_the_limit() {
    let sandbox = stocked();
    let limit = least(&sandbox, "decode t.txt -o out.wav --device cpu");
    assert!(limit < 64 << 20, "{limit}");
    let (ran, peak) = sandbox.measure(&["decode", "t.json", "-o", "out.wav", "-f", "--memory-limit", "48MiB"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    peak.check(48 << 20);
    let tiny = golden_file("snac/tiny24");
    least(&sandbox, &format!("decode t.txt -o out.wav --device cpu --model {tiny}"));
}

#[cfg(target_os = "linux")]
#[test]
fn decode_names_a_limit_that_is_enough_on_cuda() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.json"), "[[1], [2, 3], [4, 5, 6, 7]]").unwrap();
    let tiny = golden_file("snac/tiny24");
    let decode = |limit: &str| {
        let args = ["decode", "t.json", "-o", "out.wav", "--model", &tiny, "--memory-limit", limit];
        sandbox.on_cuda(&args).map(|mut command| Ran::from(command.output().unwrap()))
    };
    let Some(refused) = decode("1MiB") else { return };
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.starts_with("error: decoding with this model needs "), "{}", refused.stderr);
    let hint = refused.stderr.split_once("hint: use --memory-limit ").unwrap_or_else(|| panic!("{}", refused.stderr)).1;
    let ran = decode(hint.split_once(" or more").unwrap().0).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// A limit on a GPU of its own is one for each memory, on an integrated GPU one for the sum.
#[cfg(target_os = "linux")]
#[test]
fn integrated_gpus_share_the_memory_of_the_host_on_cuda() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.json"), "[[1], [2, 3], [4, 5, 6, 7]]").unwrap();
    let tiny = golden_file("snac/tiny24");
    let integrated = |args: &[&str]| {
        let mut command = sandbox.on_cuda(args)?;
        Some(Ran::from(command.env("MELISMA_SHIM_INTEGRATED", "1").output().unwrap()))
    };
    let Some(doctor) = integrated(&["doctor"]) else { return };
    if !doctor.stdout.contains(", shared with the CPU") {
        return skip("only the shim can pretend to be an integrated GPU");
    }
    let least = |ran: Ran| {
        let hint = ran.stderr.split_once("hint: use --memory-limit ").unwrap_or_else(|| panic!("{}", ran.stderr)).1;
        hint.split_once(" or more").unwrap().0.to_owned()
    };
    let decode = |out: &str, limit: &str, is_integrated: bool| {
        let args = ["decode", "t.json", "-o", out, "--model", &tiny, "--memory-limit", limit];
        if is_integrated {
            integrated(&args)
        } else {
            sandbox.on_cuda(&args).map(|mut own| own.output().unwrap().into())
        }
    };
    let own = least(decode("own.wav", "1MiB", false).unwrap());
    let shared = least(decode("shared.wav", "1MiB", true).unwrap());
    let bytes = |text: &str| ::melisma::text::size::parse(text).unwrap();
    assert!(bytes(&shared) > bytes(&own), "{shared} for both memories, {own} for each");
    for (out, limit, is_integrated) in [("own.wav", &own, false), ("shared.wav", &shared, true)] {
        let ran = decode(out, limit, is_integrated).unwrap();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let read = |name| std::fs::read(sandbox.path(name)).unwrap();
    assert_eq!(read("shared.wav"), read("own.wav"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_list_of_codes_counts_while_it_is_read() {
    let sandbox = stocked();
    let levels: Vec<Vec<usize>> = [1, 2, 4].map(|n| (0..n * 200_000).map(|i| i * 131 % 4096).collect()).to_vec();
    std::fs::write(sandbox.path("long.json"), serde_json::to_string(&levels).unwrap()).unwrap();
    let tiny = golden_file("snac/tiny24");
    let ran = sandbox.run(&["decode", "long.json", "-o", "out.wav", "--model", &tiny, "--memory-limit", "32MiB"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: this list of codes needs "), "{}", ran.stderr);
    assert!(ran.stderr.contains("; the memory limit is 33554432 bytes\n"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn encode_keeps_the_limit() {
    let sandbox = stocked();
    let tiny = golden_file("snac/tiny24");
    let limit = least(&sandbox, &format!("encode in.wav -o out.txt --model {tiny} --device cpu"));
    // The length of a file does not matter, nor its rate.
    let file = |rate: u32, seconds: usize| {
        let clip = melisma::audio::Clip::mono(rate, vec![0.1; rate as usize * seconds]);
        melisma::audio::wav::encode(&clip, melisma::audio::wav::SampleFormat::S16).unwrap()
    };
    std::fs::write(sandbox.path("long.wav"), file(24_000, 40)).unwrap();
    let size = melisma::text::size::exact(limit);
    let line = ["encode", "long.wav", "-o", "o.txt", "--model", &tiny, "--device", "cpu", "--memory-limit", &size];
    let (ran, peak) = sandbox.measure(&line);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    peak.check(limit);
    for (rate, name) in [(44_100, "cd.wav"), (8_000, "phone.wav")] {
        std::fs::write(sandbox.path(name), file(rate, 2)).unwrap();
        least(&sandbox, &format!("encode {name} -o {name}.txt --model {tiny} --device cpu --verify-audio"));
    }
    // The codes of a list are held until its end.
    let json = least(&sandbox, &format!("encode long.wav -o o.json --model {tiny} --device cpu"));
    assert!(json >= limit, "{json} and {limit}");
}

#[cfg(target_os = "linux")]
#[test]
fn synth_keeps_the_limit() {
    let sandbox = Sandbox::new();
    for line in [
        "synth preset:bright -o a.wav --seconds 2 --rate 24000",
        "synth preset:bright -o a.wav --seconds 2 --rate 24000 --stems stems --device cpu",
        "synth preset:bright -o clips --clips 4 --seconds 1 --rate 24000 --threads 4",
    ] {
        let limit = least(&sandbox, line);
        assert!(limit < 64 << 20, "{line}: {limit}");
    }
    // Fewer threads where more do not fit, and the same bytes.
    let clips = |folder: &str, limit: &str| {
        let args = ["synth", "preset:bright", "-o", folder, "--clips", "3", "--seconds", "1", "--rate", "24000"];
        assert_eq!(sandbox.run(&[&args[..], &["--memory-limit", limit, "--threads", "8"]].concat()).code, 0);
        std::fs::read(sandbox.path(folder).join("clip_000002.wav")).unwrap()
    };
    assert!(clips("narrow", "8MiB") == clips("wide", "1GiB"));
    let score = melisma::synth::compose(&melisma::synth::Style::named("bright").unwrap(), 1, 3000.0).unwrap();
    std::fs::write(sandbox.path("long.mid"), score.to_midi().unwrap()).unwrap();
    let limit = least(&sandbox, "synth long.mid -o b.wav --seconds 1 --rate 8000 --loudness off");
    assert!(limit < 64 << 20, "{limit}");
}

#[cfg(target_os = "linux")]
#[test]
fn demo_refuses_what_is_too_small() {
    // That it keeps a limit is seen where its report is.
    let sandbox = Sandbox::new();
    let refused = sandbox.run(&["demo", "-o", "again", "--device", "cpu", "--memory-limit", "1MiB"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("memory") && refused.stderr.contains("\nhint: "), "{}", refused.stderr);
}

/// How long a pipe is shows only at its end, so that the error names the limit and what was free under it.
#[test]
fn a_pipe_beyond_the_limit_is_a_memory_error() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.start(&["synth", "-", "-o", "o.wav", "--memory-limit", "16MiB"]);
    let mut pipe = child.stdin.take().unwrap();
    let piece = vec![0u8; 1 << 20];
    let n_taken = (0..32).take_while(|_| std::io::Write::write_all(&mut pipe, &piece).is_ok()).count();
    drop(pipe);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(n_taken < 32, "the pipe was read to its end");
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: stdin has more than the "), "{}", ran.stderr);
    assert!(ran.stderr.contains("; the memory limit is 16MiB\nhint: raise --memory-limit\n"), "{}", ran.stderr);
}
