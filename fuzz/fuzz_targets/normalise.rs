#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| melisma_fuzz::normalise(bytes));
